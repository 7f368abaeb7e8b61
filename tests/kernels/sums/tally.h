/* tally.h -- of each kind of bound: how many were compared, how many broken, the largest share that was needed. */
#define TALLIES 16

static long count[TALLIES], broken[TALLIES];
static double most[TALLIES];

/* A bound of infinity promises nothing; what is measured as infinite or NaN is outside of every other. */
static void compare(int i, ld measured, ld bound)
{
    double share = measured <= 0.0L ? 0.0 : measured < INFINITY && bound > 0.0L ? (double)(measured / bound) : INFINITY;
    if (bound == INFINITY)
        return;
    count[i]++;
    most[i] = share > most[i] ? share : most[i];
    broken[i] += !(share <= 1.0);
}

static void report(const char *const *names, int kinds)
{
    int i;
    for (i = 0; i < kinds; i++)
        printf("%s|%ld|%ld|%.3g\n", names[i], count[i], broken[i], most[i]);
}

/* tally.h -- of each kind of bound: how many were compared, how many broken, the largest share that was needed. */
#define TALLIES 16

static long count[TALLIES], broken[TALLIES];
static double most[TALLIES];

static void compare(int i, ld measured, ld bound)
{
    double share = measured <= 0.0L ? 0.0 : bound > 0.0L ? (double)(measured / bound) : INFINITY;
    if (!(measured < INFINITY && bound < INFINITY))
        return;
    count[i]++;
    most[i] = share > most[i] ? share : most[i];
    broken[i] += share > 1.0;
}

static void report(const char *const *names, int kinds)
{
    int i;
    for (i = 0; i < kinds; i++)
        printf("%s|%ld|%ld|%.3g\n", names[i], count[i], broken[i], most[i]);
}

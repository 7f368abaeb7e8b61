/* shuffled.h -- what an attacker surely learns of shuffled batches: epsilon from below.
 *
 * All other records contribute the opposite of the one that matters, so that its sum has mean 2 (1 where it is zeroed
 * out, 0 where it is replaced), and the others 0; the attacker sees in which cell the largest sum of an epoch is
 * (docs/algorithms/batches.md).  Cells end where the loss of the largest sum passes a multiple of a step.  The loss of a
 * cell is rounded down to such a multiple plus a shift that all of them have.  Epochs add up: masses are convolved.  All
 * that is left out, or rounded, makes delta smaller.  Where a record is replaced, random allocation at half the noise
 * sees more; but it has no lattice of more than some ten thousand steps.
 */
#ifndef EXPLORER_SHUFFLED_H
#define EXPLORER_SHUFFLED_H

#define EXPLORER_CELLS      1200  /* of the losses of an epoch, about */
#define EXPLORER_SEEN       24000 /* places at which the loss is looked at */
#define EXPLORER_SUMS       16384 /* of the losses of all epochs */
#define EXPLORER_CDF_OFF    4e-13 /* of a distribution function, relative, and of its logarithm */
#define EXPLORER_LEAST      1e-30 /* masses below it, and losses beyond them, are left out */
#define EXPLORER_MUCH_NOISE 10.0  /* above it random allocation says more */

typedef struct {
    int n;
    double mass[EXPLORER_CELLS * 2 + 2], loss[EXPLORER_CELLS * 2 + 2];
} explorer_cells;

typedef struct {
    int first, n; /* the multiple of the step that the first of n masses has */
    double mass[EXPLORER_SUMS];
} explorer_sums;

static double explorer_log_cdf(double x)
{
    double tail = 0.5 * erfc(fabs(x) * 0.70710678118654752440);
    return x < 0.0 ? log(tail) : log1p(-tail);
}

static double explorer_log_add(double x, double y)
{
    return fa_max(x, y) + log1p(exp(-fabs(x - y)));
}

/* log of the density of the largest of the sums, one of which has this mean, but for what all means share */
static double explorer_log_density(double x, double mean, double others)
{
    return explorer_log_add(-0.5 * (x - mean) * (x - mean) + explorer_log_cdf(x),
                            log(others) + explorer_log_cdf(x - mean) - 0.5 * x * x);
}

/* mass between two places, and how far off, relative; the logs of the distribution function there are given */
static double explorer_mass(double from, double to, double *off)
{
    double low = exp(from), high = exp(to), mass, most;
    double off_low = EXPLORER_CDF_OFF * (1.0 - from), off_high = EXPLORER_CDF_OFF * (1.0 - to);
    if (from == -INFINITY)
        off_low = 0.0;
    if (high < 0.5) {
        mass = high - low;
        most = high * off_high + (low > 0.0 ? low * off_low : 0.0);
    } else {
        mass = -expm1(from) + expm1(to);
        most = (low > 0.0 ? -expm1(from) * off_low : off_low) - expm1(to) * off_high;
    }
    *off = mass > EXPLORER_LEAST ? most / mass : 1.0;
    return mass;
}

/* The cells of both directions, remove first; steps above 1. */
static void explorer_opposed(double noise, double steps, double mean, double step, explorer_cells *out)
{
    double least = mean / noise - 7.0, most = 2.0 / noise + 7.0, others = steps - 1.0, last = 0.0;
    double log_p = -INFINITY, log_q = -INFINITY; /* of the distribution functions, where a cell begins */
    int i;
    out[0].n = out[1].n = 0;
    for (i = 0; i <= EXPLORER_SEEN; i++) {
        double x = least + (most - least) * i / EXPLORER_SEEN, to_p = 0.0, to_q = 0.0, p, q, off_p, off_q, loss, error;
        double seen = floor((explorer_log_density(x, 2.0 / noise, others) -
                             explorer_log_density(x, mean / noise, others)) / step);
        int is_end = i == EXPLORER_SEEN;
        if (!is_end && (i == 0 || seen == last)) {
            last = seen;
            continue;
        }
        last = seen;
        if (!is_end) {
            double other = others * explorer_log_cdf(x);
            to_p = explorer_log_cdf(x - 2.0 / noise) + other;
            to_q = explorer_log_cdf(x - mean / noise) + other;
        }
        p = explorer_mass(log_p, to_p, &off_p);
        q = explorer_mass(log_q, to_q, &off_q);
        log_p = to_p, log_q = to_q;
        if (off_p >= 1e-3 || off_q >= 1e-3 || out[0].n == 2 * EXPLORER_CELLS)
            continue;
        loss = log(p / q);
        error = 1.01 * (off_p + off_q) + EXPLORER_CDF_OFF * (1.0 + fabs(loss));
        out[0].mass[out[0].n] = p * (1.0 - off_p);
        out[0].loss[out[0].n++] = loss - error;
        out[1].mass[out[1].n] = q * (1.0 - off_q);
        out[1].loss[out[1].n++] = -loss - error;
    }
}

/* The losses of an epoch, each rounded down to a shift and a multiple of the step: the shift that loses least. */
static double explorer_rounded(const explorer_cells *cells, double step, explorer_sums *out)
{
    double best = INFINITY, shift = 0.0, rest[EXPLORER_CELLS * 2 + 2];
    int i, j, low = 0, high = 0, at[EXPLORER_CELLS * 2 + 2];
    for (i = 0; i < cells->n; i++)
        rest[i] = cells->loss[i] - step * floor(cells->loss[i] / step);
    for (j = 0; j < cells->n; j++) {
        double lost = 0.0;
        for (i = 0; i < cells->n; i++)
            lost += cells->mass[i] * (rest[i] - rest[j] + (rest[i] < rest[j] ? step : 0.0));
        if (lost < best)
            best = lost, shift = rest[j];
    }
    out->n = 0;
    for (i = 0; i < cells->n; i++) {
        at[i] = (int)floor((cells->loss[i] - shift) / step - 1e-9);
        low = i && low < at[i] ? low : at[i];
        high = i && high > at[i] ? high : at[i];
    }
    if (!cells->n || high - low >= EXPLORER_SUMS)
        return 0.0;
    out->first = low, out->n = high - low + 1;
    for (i = 0; i < out->n; i++)
        out->mass[i] = 0.0;
    for (i = 0; i < cells->n; i++)
        out->mass[at[i] - low] += cells->mass[i];
    return shift;
}

/* The sum of two independent losses, without what is hardly there; 0 where it has too many values. */
static int explorer_added(const explorer_sums *a, const explorer_sums *b, explorer_sums *out)
{
    static double all[2 * EXPLORER_SUMS];
    int i, j, low = 0, high = a->n + b->n - 2;
    for (i = 0; i <= high; i++)
        all[i] = 0.0;
    for (i = 0; i < a->n; i++)
        for (j = 0; j < b->n; j++)
            all[i + j] += a->mass[i] * b->mass[j];
    for (; low < high && all[low] < EXPLORER_LEAST; low++)
        ;
    for (; low < high && all[high] < EXPLORER_LEAST; high--)
        ;
    if (high - low >= EXPLORER_SUMS)
        return 0;
    out->first = a->first + b->first + low, out->n = high - low + 1;
    for (i = 0; i < out->n; i++)
        out->mass[i] = all[low + i];
    return 1;
}

/* of so many epochs; 0 as above */
static int explorer_composed(const explorer_sums *one, int epochs, explorer_sums *out)
{
    static explorer_sums power, next;
    int is_begun = 0;
    power = *one;
    for (; epochs; epochs >>= 1) {
        if (epochs & 1) {
            if (is_begun && !explorer_added(out, &power, &next))
                return 0;
            *out = is_begun ? next : power;
            is_begun = 1;
        }
        if (epochs > 1) {
            if (!explorer_added(&power, &power, &next))
                return 0;
            power = next;
        }
    }
    return 1;
}

/* delta at epsilon from below: a sum of n products in each convolution is off by n units */
static double explorer_least_delta(const explorer_sums *sums, double step, double shift, double epochs, double epsilon)
{
    double delta = 0.0;
    int i;
    for (i = 0; i < sums->n; i++) {
        double loss = step * (sums->first + i) + shift;
        loss -= 1e-12 * (1.0 + fabs(loss));
        if (loss > epsilon)
            delta += sums->mass[i] * -expm1(epsilon - loss);
    }
    return delta * (1.0 - 4e-12 * epochs) - 1e-300;
}

/* Epsilon of shuffled batches is not below this; mean: 1 where a record is zeroed out, 0 where it is replaced. */
EXPORT(explorer_shuffled)
double explorer_shuffled(double noise, double steps, double epochs, double mean, double delta)
{
    static explorer_cells cells[2];
    static explorer_sums one, all;
    double epsilon = 0.0, far = (2.0 - mean) / noise, step = (7.0 * far + far * far) / EXPLORER_CELLS;
    int way, i;
    if (!(noise > 0.0 && noise <= EXPLORER_MUCH_NOISE && steps > 1.0 && epochs >= 1.0 && epochs <= 1000.0))
        return 0.0;
    for (way = 0; way < 2; way++) {
        double own = step, low = 0.0, high, shift = 0.0;
        for (i = 0; i < 12; i++, own *= 2.0) { /* a wider step, until all sums have room */
            explorer_opposed(noise, steps, mean, own, cells);
            shift = explorer_rounded(&cells[way], own, &one) * epochs;
            if (one.n > 0 && explorer_composed(&one, (int)epochs, &all))
                break;
        }
        if (i == 12)
            continue;
        high = own * (all.first + all.n) + shift;
        for (i = 0; i < 60 && low < high; i++) {
            double mid = 0.5 * (low + high);
            if (explorer_least_delta(&all, own, shift, epochs, mid) > delta * (1.0 + 1e-12))
                low = mid;
            else
                high = mid;
        }
        epsilon = fa_max(epsilon, low);
    }
    return epsilon;
}

#endif

/* explorer.c -- what the page asks of the kernels, compiled to WebAssembly by build.mjs.
 *
 * Functions return a fastacct_status.  From FASTACCT_BAD_INPUT on the answers are the safe side.  Upper bounds are
 * never below the truth, lower ones never above it, as in fastacct.h; the error of libm here is measured by libm.c.
 */
#include "fastacct.c"

#define EXPORT(name) __attribute__((export_name(#name)))

/* What a run's steps lose.  0 to 2: a Poisson sample, as fastacct_relation says; and beside these */
enum {
    EXPLORER_REPLACE_ONE = 3, /* of which one record is replaced, whose clipped gradient may turn round */
    EXPLORER_FIXED_SIZE = 4,  /* a batch of fixed size in which a record's place is taken: from above */
    EXPLORER_ALLOCATION = 5   /* one of `rate` steps of an epoch, drawn at random; `steps` counts the epochs */
};
#define EXPLORER_PAD         0x1p-49 /* covers the few operations of a formula, with 4 ulp for exp, expm1 and log */

EXPORT(explorer_alloc) void *explorer_alloc(size_t size) { return malloc(size); }

/* One run, where it is read, and where the answers go. */
typedef struct {
    double noise, rate, steps;
    int law;
    fa_ways way; /* of laws of their own */
    fa_quantity quantity;
    size_t n;
    const double *target;
    double *lower, *upper;
    uint8_t *status;
} explorer_ask;

static void explorer_refuse(const explorer_ask *ask, uint8_t status)
{
    double safe = ask->quantity == FA_GIVE_EPSILON ? INFINITY : ask->quantity == FA_GIVE_DELTA ? 1.0 : 0.0;
    size_t i;
    for (i = 0; i < ask->n; i++) {
        ask->lower[i] = ask->quantity == FA_GIVE_LOG_DELTA ? -INFINITY : 0.0;
        ask->upper[i] = safe;
        ask->status[i] = status;
    }
}

static int explorer_is_target(fa_quantity quantity, double target)
{
    if (quantity == FA_GIVE_THRESHOLD)
        return target > 0.0 && target < 1.0;
    return target >= 0.0 && (quantity != FA_GIVE_EPSILON || target <= 1.0);
}

static uint8_t explorer_fault(const explorer_ask *ask)
{
    size_t i;
    if (!fa_rounds_to_nearest() || !fa_keeps_subnormals())
        return FASTACCT_BAD_ARITHMETIC;
    if (ask->law < 0 || ask->law > EXPLORER_ALLOCATION)
        return FASTACCT_BAD_INPUT;
    if (ask->law == EXPLORER_ALLOCATION && !(ask->rate > 1.0 && ask->rate < 1e15 && floor(ask->rate) == ask->rate))
        return FASTACCT_BAD_INPUT;
    if (!fa_is_run(ask->noise, ask->law == EXPLORER_ALLOCATION ? 1.0 : ask->rate, ask->steps))
        return FASTACCT_BAD_INPUT;
    for (i = 0; i < ask->n; i++)
        if (!explorer_is_target(ask->quantity, ask->target[i]))
            return FASTACCT_BAD_INPUT;
    return FASTACCT_TIGHT;
}

/* a record that is replaced: drawn or not, and when drawn moves the sum one way or the other */
static int64_t explorer_replaced(const explorer_ask *ask, const fa_question *question, const fa_answers *out)
{
    int32_t two = 2;
    double weight[4] = {1.0 - ask->rate, ask->rate, 1.0 - ask->rate, ask->rate}, mean[4] = {0.0, 1.0, 0.0, -1.0};
    fa_job job = {.n_blocks = 1,
                  .count = &ask->steps,
                  .sigma = &ask->noise,
                  .n_p = &two,
                  .n_q = &two,
                  .weight = weight,
                  .mean = mean,
                  .mirrored = 1};
    fa_cells at = {.n = (int64_t)ask->n, .target = ask->target};
    return fa_exact_job(&job, &at, question, INFINITY, out);
}

/* the noise of a step without a sample, in units of what a record moves there */
static double explorer_plain_noise(const explorer_ask *ask)
{
    return ask->law == EXPLORER_REPLACE_ONE || ask->law == EXPLORER_FIXED_SIZE ? 0.5 * ask->noise : ask->noise;
}

static int64_t explorer_sampled(const explorer_ask *ask, const fa_question *question, const fa_answers *out)
{
    double noise = explorer_plain_noise(ask);
    double *column = malloc(3 * ask->n * sizeof(double));
    fa_cells in = {.n = (int64_t)ask->n,
                   .sigma = column,
                   .q = column + ask->n,
                   .steps = column + 2 * ask->n,
                   .target = ask->target};
    int64_t done;
    size_t i;
    if (!column)
        return FA_NO_MEMORY;
    for (i = 0; i < ask->n; i++) {
        column[i] = noise;
        column[ask->n + i] = fa_min(ask->rate, 1.0);
        column[2 * ask->n + i] = ask->steps;
    }
    done = fa_exact_block(&in, question, INFINITY, out);
    free(column);
    return done;
}

#include "data.h"

/* Where no line says anything: epsilon without sampling is an upper bound. */
static void explorer_below_unsampled(const explorer_ask *ask)
{
    double lower, upper, slope, noise = explorer_plain_noise(ask), rate = 1.0;
    uint8_t status;
    size_t i;
    fa_question question = {.quantity = FA_GIVE_EPSILON, .ways = FA_WAYS_BOTH, .conversion = FA_RULE_CKS};
    fa_answers out = {.lower = &lower, .upper = &upper, .slope = &slope, .status = &status};
    for (i = 0; i < ask->n; i++) {
        fa_cells one = {.n = 1, .sigma = &noise, .q = &rate, .steps = &ask->steps, .target = ask->target + i};
        if (ask->status[i] != FASTACCT_NOT_MET || fa_exact_block(&one, &question, INFINITY, &out) != 1)
            continue;
        if (upper < ask->upper[i]) {
            ask->upper[i] = upper;
            ask->status[i] = FASTACCT_LOOSE;
        }
    }
}

/* all targets of a run: the largest status */
static int explorer_answer(const explorer_ask *ask)
{
    int is_own = ask->law >= EXPLORER_REPLACE_ONE && ask->rate > 0.0 && ask->rate != 1.0 && ask->steps > 0.0 &&
                 ask->noise > 0.0 && ask->noise < INFINITY;
    fa_question question = {.quantity = ask->quantity,
                            .ways = ask->law < EXPLORER_REPLACE_ONE ? (fa_ways)fa_ways_of(ask->law)
                                                                    : ask->way,
                            .conversion = FA_RULE_CKS};
    uint8_t most = explorer_fault(ask);
    double *slope;
    fa_answers out;
    int64_t done = FA_NO_MEMORY;
    size_t i;
    if (most != FASTACCT_TIGHT) {
        explorer_refuse(ask, most);
        return most;
    }
    slope = malloc((ask->n + 1) * sizeof(double));
    out = (fa_answers){.lower = ask->lower, .upper = ask->upper, .slope = slope, .status = ask->status};
    if (slope)
        done = !is_own                            ? explorer_sampled(ask, &question, &out)
               : ask->law == EXPLORER_REPLACE_ONE ? explorer_replaced(ask, &question, &out)
                                                  : explorer_data(ask, &question, &out);
    free(slope);
    if (done != (int64_t)ask->n) {
        explorer_refuse(ask, FASTACCT_NO_MEMORY);
        return FASTACCT_NO_MEMORY;
    }
    if (is_own && ask->quantity == FA_GIVE_EPSILON)
        explorer_below_unsampled(ask);
    for (i = 0; i < ask->n; i++)
        most = ask->status[i] > most ? ask->status[i] : most;
    return most;
}

/* bounds of epsilon (0), delta (1) or log delta (2) of one run at n targets */
EXPORT(explorer_read)
int explorer_read(double noise, double rate, double steps, int law, int quantity, size_t n, const double *target,
                  double *lower, double *upper, uint8_t *status)
{
    explorer_ask ask = {noise, rate, steps, law, FA_WAYS_BOTH, (fa_quantity)quantity, n, target, lower, upper, status};
    return explorer_answer(&ask);
}

/* bounds of epsilon, cell by cell */
EXPORT(explorer_epsilon)
int explorer_epsilon(size_t n, const double *noise, const double *rate, const double *steps, const double *delta,
                     int law, double *lower, double *upper, uint8_t *status)
{
    int most = FASTACCT_TIGHT, found;
    size_t i;
    if (law < EXPLORER_REPLACE_ONE)
        return fastacct_epsilon(n, noise, rate, steps, delta, (fastacct_relation)law, lower, upper, status);
    for (i = 0; i < n; i++) {
        found = explorer_read(noise[i], rate[i], steps[i], law, FA_GIVE_EPSILON, 1, delta + i, lower + i,
                              upper + i, status + i);
        most = found > most ? found : most;
    }
    return most;
}

#include "attack.h"
#include "noise.h"
#include "shuffled.h"

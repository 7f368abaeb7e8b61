/* cells.c -- answers of the C interface, and of whole jobs as Python hands them to the kernels; tests/tools/aarch64.py.
 *
 *     program < lines
 *
 * A line `cell FUNCTION RELATION a b c d` is one cell of a function of fastacct.h.  A line `job QUANTITY WAYS MIRRORED
 * SPACING` and the arrays of a fa_job (kernels.h), each with its length before it, is one job at its targets.  Printed
 * for every cell and target: lower and upper bound in hexadecimal, and the status.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastacct.h"
#include "kernels.h"

enum { COUNT, SIGMA, N_P, N_Q, WEIGHT, MEAN, TIMES, N_ATOMS, N_PANELS, ATOM, PANEL, N_TABLES, N_SLICES, POINT, SLICE };
enum { MISSED = SLICE + 1, SMOOTH, TARGET, OFF, ARRAYS };

typedef struct {
    size_t n;
    double *value;
    int32_t *whole; /* the same as integers */
} array;

static void *room(size_t size)
{
    void *memory = calloc(size + 1, 1);
    if (!memory)
        exit(2);
    return memory;
}

static void read_array(array *a)
{
    size_t i;
    if (scanf("%zu", &a->n) != 1)
        exit(1);
    a->value = room(sizeof(double) * a->n);
    a->whole = room(sizeof(int32_t) * a->n);
    for (i = 0; i < a->n; i++) {
        if (scanf("%la", a->value + i) != 1)
            exit(1);
        a->whole[i] = (int32_t)a->value[i];
    }
}

static void print(size_t n, const double *lower, const double *upper, const uint8_t *status)
{
    size_t i;
    for (i = 0; i < n; i++)
        printf("%a %a %d\n", lower[i], upper[i], status[i]);
}

static int answer_cell(void)
{
    char function;
    int relation;
    double a, b, c, d, lower = 0.0, upper = 0.0;
    uint8_t status = 255;
    if (scanf(" %c %d %la %la %la %la", &function, &relation, &a, &b, &c, &d) != 6)
        return 0;
    if (function == 'e')
        fastacct_epsilon(1, &a, &b, &c, &d, (fastacct_relation)relation, &lower, &upper, &status);
    if (function == 'd')
        fastacct_delta(1, &a, &b, &c, &d, (fastacct_relation)relation, &lower, &upper, &status);
    if (function == 'r')
        fastacct_rdp(1, &a, &b, &c, &d, &lower, &upper, &status);
    if (function == 'n') {
        fastacct_noise_multiplier(1, &a, &b, &c, &d, (fastacct_relation)relation, &upper, &status);
        lower = upper;
    }
    print(1, &lower, &upper, &status);
    return 1;
}

static void ask(const array *a, int quantity, int ways, int mirrored, double spacing)
{
    size_t n = a[TARGET].n, i;
    double *answers = room(3 * n * sizeof(double));
    uint8_t *status = room(n);
    const fa_question question = {.quantity = (fa_quantity)quantity, .ways = (fa_ways)ways, .conversion = FA_RULE_CKS};
    const fa_cells at = {.n = (int64_t)n, .target = a[TARGET].value, .off = a[OFF].n ? a[OFF].value : NULL};
    const fa_answers out = {
        .lower = answers, .upper = answers + n, .slope = answers + 2 * n, .order = NULL, .status = status};
    const fa_job job = {
        (int)a[COUNT].n, a[COUNT].value, a[SIGMA].value,    a[N_P].whole,      a[N_Q].whole,      a[WEIGHT].value,
        a[MEAN].value,   (int)a[TIMES].n, mirrored,         spacing,           a[TIMES].value,    a[N_ATOMS].whole,
        a[N_PANELS].whole, a[ATOM].value, a[PANEL].value,   a[N_TABLES].whole, a[N_SLICES].whole, a[POINT].value,
        a[SLICE].value,  a[MISSED].value, a[SMOOTH].value};
    if (fa_kernels_baseline()->exact_job(&job, &at, &question, INFINITY, &out) != (int64_t)n)
        for (i = 0; i < n; i++)
            status[i] = FASTACCT_NO_MEMORY;
    print(n, answers, answers + n, status);
    free(answers);
    free(status);
}

static int answer_job(void)
{
    array a[ARRAYS];
    int quantity, ways, mirrored, i;
    double spacing;
    if (scanf("%d %d %d %la", &quantity, &ways, &mirrored, &spacing) != 4)
        return 0;
    for (i = 0; i < ARRAYS; i++)
        read_array(a + i);
    ask(a, quantity, ways, mirrored, spacing);
    for (i = 0; i < ARRAYS; i++) {
        free(a[i].value);
        free(a[i].whole);
    }
    return 1;
}

int main(void)
{
    char word[8];
    while (scanf("%7s", word) == 1)
        if (!(strcmp(word, "cell") ? answer_job() : answer_cell()))
            return 1;
    return 0;
}

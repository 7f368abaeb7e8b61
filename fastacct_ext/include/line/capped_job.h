/* line/capped_job.h -- steps of the Poisson-sampled Gaussian, direction remove, and the windows that split delta(eps)
 * in three.
 *
 * keep(z) = Phi((cap - z)/width): losses beyond the cap have weight 1 - keep.  Where one step alone exceeds eps by what
 * the others can take back, the payoff exp(S) - exp(eps) is linear and needs no integral:
 *
 *   delta = closed + put + sum on the line + floor part
 *
 *   closed = [1 - B0(1)^T] - e^eps [1 - B0(0)^T], where B0(u) = E_Q[exp(u L) keep]
 *
 *   0 <= put <= what S is below eps though a step is beyond the cap
 *
 *   0 <= floor part <= Chernoff's bound of the small losses
 *
 * docs/algorithms/line.md, "Three parts".
 */
#ifndef FA_LINE_CAPPED_JOB_H
#define FA_LINE_CAPPED_JOB_H

#include "../loss/phasors.h"
#include "../loss/cells.h"
#include "../loss/path.h"
#include "../loss/two_ends.h"
#include "capped_effort.h"
#include "mixture_loss.h"

#define FA_CAP_BLOCKS  65536  /* at most: their nodes take some 40 kB each */
#define FA_CAP_DEPTH   7.5    /* standard widths between the losses that reach eps and the cap */
#define FA_CAP_CUT     8.6    /* standard widths beyond the cap where the window ends, at 4e-18 */
#define FA_CAP_DEEPEST -800.0 /* log of the least delta that caps are placed for at once */
#define FA_CAP_SYNC    128    /* points between fresh starts of the phasors of a line; a multiple of FA_RUN */
#define FA_CAP_LEVELS  3      /* heights below the last at which errors of the nodes may be less */
#define FA_CAP_FALLS   16     /* exponents of Chernoff's bounds of what takes a sum back */
#define FA_CAP_NOTHING 40.0   /* -log of a share of delta that is worth nothing, with room for a rough guess of delta */

typedef struct {
    double cap, width;         /* in z */
    double log_q, log_p;       /* log J0 = log Q(beyond the cap), log of q P_1(beyond the cap), P_1 = N(1, sigma^2) */
    double q_mass, gain;       /* J0, and J1 - J0 where J1 is the mass under the sampled mixture */
    double depth;              /* cap over the standard deviation of z + window: how far out J0 is */
    double lost;               /* q J0 over q P_1: what the difference J1 - J0 takes away */
    double share_p, share_q;   /* of the blocks' steps q P_1 and steps J0 */
    double floor, floor_width; /* small losses, z below the floor, are left to Chernoff's bound */
    double low_q, low_more, low_depth; /* walled: log Q_low = E_Q[low], E_Q[(e^l - 1) low]/Q_low, how far out it is */
    double low_cut, off; /* keep low where small losses are cut off, 0 from there on; what J0, J1 may be off by, in u */
} fa_cap_windows;

/* what all blocks lose beyond their caps: log of sum n q P_1 and of sum n J0; sum n log(1-J0), and what log(1-J1) adds;
 * sum n J0; the share of n q P_1 that is gain; log of f(J1) - f(J0) and of f(J0), f(J) = 1 - prod (1-J)^n */
typedef struct {
    double log_p, log_q, gone, gains, taken, kept, log_first, log_f;
} fa_cap_lost;

/* nodes of one block: losses and weights on the real axis (line/capped_nodes.h) */
typedef struct {
    fa_nodes sum; /* lr: loss - mean; wr, log_w: weight times keep; the phasors.  Memory is the whole's */
    double h, stretch, start; /* step in xi, a, xi of the first node */
    double mean,
        mean_error;   /* of the loss, mu = -E_Q[keep (e^L - 1 - L)], and u times what it may be off by is added to r */
    double linear;    /* E_Q[keep (L - mu)] + mu (1 - J0) ... the part of B0 linear in u */
    int edge, lifted; /* first nodes where keep < 1, and where the floor's weight is not 0; multiples of 8 */
    int has_logs;     /* whether log_w and log_q are filled */
    fa_mesh mesh;     /* of a loss that is data */
    double laid;      /* largest exponent for which line/flat_place.h has laid them; 0: they are not its */
    int capacity;
    double *z, *log_q;             /* log of the weight without windows */
    double *slope, *bend;          /* f = dX/dxi, bound of |f'/f| in the strip */
    double *x, *keep, *beyond;     /* (z - cap)/(width sqrt 2), the window, 1 - keep */
    double *above, *large, *small; /* 1 - the floor's window, and the weights times it and times the window */
    double *large_r, *large_i;     /* phasors of `large` */
    double *first_r, *first_i;     /* what the first step adds to a phasor of `sum` */
    double *gross, *moved; /* of mixtures: log(1 + w_P) + log(1 + w_Q), A - B; of others A - B at both ends alone */
    double *spread;        /* bound of l'' */
    double *fine, *slip;   /* what a weight rounds, relative, and a loss, in units of the last place */
    int seen; /* small losses have no node from here on: where exp(v l) would outweigh the floor's window */
    double *scratch, *scratch2;
    double *memory;
} fa_cap_nodes;

/* bounds of quadrature errors: of the line's sum, of the large losses', of E_Q[exp(v l) keep] for v <= plan.right, of
 * the small losses' at plan.low, of the mean; where both sides are mixtures, for v >= FA_MIX_PUT */
typedef struct {
    double line, large, right, low, mean, back;
    double less[FA_CAP_LEVELS]; /* by how much the line's is less up to a 4th, a 16th, ... of its height */
} fa_cap_moduli;

/* errors of B0 exp(-u mu) at a point: quadrature fixed + mean |u|, rounding min(far, near |u|^2/c^2); and of D */
typedef struct {
    double fixed, mean, near, far, large;
    double less[FA_CAP_LEVELS]; /* of the former, as in fa_cap_moduli */
} fa_cap_errors;

/* One block's share in the bound of `put` at a < 0: log of T J(a), J(a) = E_Q[e^{aL} (1 - keep)], its slope and
 * curvature, and log M(a), all enlarged by what they may be off by */
typedef struct {
    double log_j, slope, curve, log_m, d1, d2, slop;
} fa_cap_beyond;

typedef struct fa_cap_block fa_cap_block;
typedef struct fa_cap_job fa_cap_job;
typedef struct fa_cap_plan fa_cap_plan;
typedef struct fa_cap_line fa_cap_line;

/* moduli at every second node, in cells between which the smaller one of two counts; low, large: with a floor; back:
 * for v >= FA_MIX_PUT, or NULL */
typedef struct {
    double *line[2], *mean[2], *right[2], *back[2], *large[2], *low[2];
} fa_cap_cells_of;

/* What a kind of loss does in a way of its own, on whole arrays: line/families.h.  0: none, too many, or no memory */
typedef struct {
    double begin; /* standard deviations left of 0 where nodes for placing begin */
    /* the cap for eps where the other steps may take so much back */
    int (*place_cap)(const fa_cap_job *, fa_cap_block *, const fa_cap_effort *, double eps, double back);
    /* nodes with steps of about h, or of 1.2 widths of the narrowest edge: `edge` in the loss where it lies, `narrow`
     * in z.  all: with logarithms (1), and with what bounds are made of (2) */
    int (*rough)(const fa_cap_block *, fa_cap_nodes *, double h, double edge, double narrow, double z_low,
                 double z_high, int all);
    /* the coarse nodes, for real exponents from v_min to v_max or to the cap */
    int (*coarse)(fa_cap_block *, double v_min, double v_max);
    /* few nodes of a line, for the search of where its points end */
    int (*find_rough)(const fa_cap_job *, fa_cap_block *, const fa_cap_line *, const fa_cap_effort *);
    /* nodes of a line for Im u up to t */
    int (*lay)(const fa_cap_job *, fa_cap_block *, const fa_cap_line *, const fa_cap_effort *, double t);
    /* bounds of quadrature errors, for real exponents up to v_right; and what they are made of, in moduli on nodes */
    fa_cap_moduli (*quadrature)(const fa_cap_job *, fa_cap_block *, const fa_cap_line *, double t, double v_right);
    void (*moduli)(fa_cap_block *, const fa_cap_line *, double t, double v_right, int with_floor, fa_cap_cells_of *);
    /* what lies beyond the first and the last node, for exponents with real part v and |u| up to u, of exp(ul) - 1
     * (order 1) or exp(ul) - 1 - ul (order 2); of the mean (order 0) */
    double (*ends)(const fa_cap_block *, double v, double u, int order);
    /* at a < 0: what E_Q[e^(al) keep] may be off by; and sums beyond the cap, times e^ what it returns */
    double (*back_error)(const fa_cap_block *, double a);
    double (*outside)(const fa_cap_block *, double a, double *sums);
    /* log of a bound of |E_Q[exp(u l) keep]|, and of that with 1 - the floor's window, for all Im u >= t; lower: factor
     * on the height of a curve.  The sum's own error, *slack_out, is added.  pay = 0: about */
    double (*majorant)(fa_cap_block *, const fa_cap_line *, double t, double lower, double pay, double *slack_out);
    double (*majorant_large)(fa_cap_block *, const fa_cap_line *, double t, double lower, double pay);
} fa_family;

static const fa_family fa_sampled_family, fa_mixture_family, fa_pieces_family;

/* steps of one sampled Gaussian, or of one pair of mixtures: its numbers, its windows, and what a line keeps of it */
struct fa_cap_block {
    const fa_family *family;
    int grows, falls;        /* whether losses are seen to grow without end, beyond a cap, and whether they fall so */
    int may_split;           /* whether small losses may be left to Chernoff's bound: not those of a lattice */
    const fa_pair *pair;     /* of mixtures, or NULL: */
    const fa_pieces *pieces; /* a loss that is data, or NULL ... */
    fa_two_ends two;         /* ... its moments in closed form, if they are known, ... */
    fa_edge window, dip;     /* ... its cap, z being the loss, what it hardly ever falls below, ... */
    fa_path_part *large_paths; /* ... those of `paths` that are of large losses, ... */
    fa_share_of own_share;     /* ... and its share at the exponent share_at */
    double share_at, last_v, plain_v; /* last_v: up to which its lattice has an end; plain_v: without a cap */
    double whole;                     /* of that, E_Q[exp(u L)] at the exponent itself */
    double sigma, q, steps, log_steps;
    double kappa, log_odds, inv_var; /* log(1-q), log(q/(1-q)), 1/sigma^2 */
    double log_most;                 /* the largest |log| of a weight */
    double variance;                 /* steps q^2 (exp(1/sigma^2) - 1), about that of the sum */
    fa_cap_windows w;
    fa_cap_moduli moduli; /* set with the ledger */
    int is_low;           /* whether the cap is where what is beyond is worth nothing, not where it reaches eps */
    int split;            /* whether its small losses are left to Chernoff's bound, not all of its losses */
    double strip;         /* |Im xi| that the nodes' step was chosen for */
    int is_alone;         /* of losses that are data: whether there is no other block */
    int walled;           /* as its job */
    int sync, fine;       /* points between fresh starts of the phasors; whether cells are narrow enough */
    double deep;          /* walled: how far left of 0 a step of the tilt is */
    fa_cap_errors errors; /* set with the ledger, as those of `put` and log of bounds of |B0| and |D| beyond t */
    fa_cap_beyond beyond;
    double most, large;
    double k, d1, jumps; /* its part of K at c, its slope, and steps times the tilted chance of a large loss */
    /* what stays where other steps take its place: */
    fa_pair own;                         /* that of a sampled Gaussian */
    fa_cap_nodes coarse, nodes, outside; /* for placing; of the line; beyond the cap of data, weights times 1 - keep */
    fa_path_part *paths;       /* of data: bounds at the exponent share_at of what the line has, and of large losses */
    fa_cell *cells;            /* ... and parts at that exponent, over exp(own_share.size), if they are fine enough */
    double *inverse;           /* at the points: 1/|B0 exp(-u mu)| */
    double *log_small, *ratio; /* with a floor: log |Bb/B0|, |D/B0| */
    double *share;             /* in the ledger: what B0 may be off by, over |B0| */
    double *memory;
    int capacity; /* points that they have room for */
};

/* a job: blocks of sampled Gaussians, and Gaussians that see every record as one, exp(u (u-1) mu2/2) */
struct fa_cap_job {
    int n, capacity;
    fa_cap_block *blocks;
    double mu2;
    double steps, variance, least; /* sums over the blocks; least: of steps log(1-q), the least sum of losses ... */
    int mixtures;                  /* how many blocks are mixtures ... */
    int data, ended;               /* ... and how many are losses that are data, without Gaussians, ... */
    int curves;                    /* ... or panels of Gaussians; ... */
    int two_ended;                 /* ... whose moments are known in closed form; ... */
    double top;                    /* ... whose largest losses have this sum */
    double taken_back; /* ... but for mixtures on both sides: how far one step may take the sum back; 0: none */
    int has_falls; /* of data: logs of Chernoff's bounds of what takes the sum back, and their exponents */
    double falls[FA_CAP_FALLS], fall_at[FA_CAP_FALLS], fall_a; /* the one of the caps as they are; 0: none */
    fa_cap_lost lost;
    double deepest; /* log of a delta that no cap is to be seen by */
    int has_floor;  /* whether small losses are left to Chernoff's bound */
    int is_add; /* direction add: the same steps at exponents 1 - u; no cap is ever reached, and there is no floor */
    int walled; /* direction add of few steps (line/capped_closed.h) */
    double off; /* what the log delta of an eps that is asked may be off by, either way */
    double low_q, low_p; /* walled: sums of n log Q_low and of n log of P_low/Q_low, P_low = E_Q[e^l low] */
};

/* the exponent on the nodes where K of the job is asked for v */
FA_INLINE double fa_cap_tilt(const fa_cap_job *job, double v) { return job->is_add ? 1.0 - v : v; }

#define FA_CAP_ARRAYS 32 /* of nodes ... */
#define FA_CAP_GAP    8  /* ... and room between them, so that no two are a whole number of pages apart */

FA_INLINE double *fa_cap_align(double *memory) { return (double *)(((uintptr_t)memory + 63) & ~(uintptr_t)63); }

/* arrays of c nodes each from `at` on; those that placing uses come first */
FA_FUNC void fa_cap_nodes_lay(fa_cap_nodes *s, double *at, size_t c)
{
    fa_nodes *sum = &s->sum;
    double **arrays[FA_CAP_ARRAYS] = {
        &sum->lr,    &sum->wr,    &sum->log_w,  &s->z,     &s->log_q, &s->slope,   &s->x,       &s->keep,
        &s->beyond,  &s->above,   &s->large,    &s->small, &s->bend,  &sum->vr,    &sum->vi,    &sum->er,
        &sum->ei,    &sum->gr,    &sum->gi,     &sum->fr,  &sum->fi,  &s->large_r, &s->large_i, &s->first_r,
        &s->first_i, &s->scratch, &s->scratch2, &s->gross, &s->moved, &s->spread,  &s->fine,    &s->slip};
    int i;
    for (i = 0; i < FA_CAP_ARRAYS; i++)
        *arrays[i] = at + (size_t)i * (c + FA_CAP_GAP);
    s->capacity = (int)c;
}

FA_FUNC void fa_cap_job_free(fa_cap_job *job)
{
    int b;
    for (b = 0; b < job->capacity; b++) {
        fa_mesh_free(&job->blocks[b].coarse.mesh);
        fa_mesh_free(&job->blocks[b].nodes.mesh);
        free(job->blocks[b].coarse.memory);
        free(job->blocks[b].nodes.memory);
        free(job->blocks[b].memory);
        free(job->blocks[b].cells);
        fa_mesh_free(&job->blocks[b].outside.mesh);
        free(job->blocks[b].outside.memory);
        free(job->blocks[b].paths);
    }
    free(job->blocks);
    memset(job, 0, sizeof(*job));
}

/* an empty job with room for n blocks; their nodes get memory when they are filled.  0: no memory */
FA_FUNC int fa_cap_job_clear(fa_cap_job *job, int n)
{
    if (n > job->capacity)
        fa_cap_job_free(job);
    *job = (fa_cap_job){.capacity = job->capacity, .blocks = job->blocks, .deepest = FA_CAP_DEEPEST};
    if (n <= job->capacity)
        return 1;
    job->blocks = fa_alloc_zeroed(sizeof(fa_cap_block) * (size_t)n);
    job->capacity = job->blocks ? n : 0;
    return job->blocks != NULL;
}

/* the next block, as yet nothing but its kind and its steps */
FA_FUNC fa_cap_block *fa_cap_job_next(fa_cap_job *job, const fa_family *family, double steps)
{
    fa_cap_block *block = job->blocks + job->n++;
    memset(block, 0, offsetof(fa_cap_block, own));
    block->family = family;
    block->sync = FA_CAP_SYNC;
    block->steps = steps;
    block->log_steps = log(steps);
    job->steps += steps;
    return block;
}

/* steps of a pair of mixtures, which stays where it is */
FA_FUNC void fa_cap_job_add_pair(fa_cap_job *job, const fa_pair *pair, double steps)
{
    int i, is_sampled = pair->sample_rate > 0.0;
    fa_cap_block *block = fa_cap_job_next(job, is_sampled ? &fa_sampled_family : &fa_mixture_family, steps);
    block->pair = pair;
    block->grows = block->may_split = fa_pair_grows(pair);
    block->falls = fa_pair_falls(pair);
    block->sigma = pair->sigma;
    block->q = is_sampled ? pair->sample_rate : -expm1(pair->p_weight[0]);
    block->kappa = pair->kappa;
    block->log_odds = is_sampled ? pair->p_weight[1] - pair->kappa : 0.0;
    for (i = 0; i <= pair->n_p; i++)
        block->log_most = fa_max(block->log_most, 2.0 * fabs(pair->p_weight[i]));
    block->inv_var = pair->inv_var;
    block->variance = steps * fa_mix_chi_square(pair);
    job->variance += block->variance;
    job->least += steps * block->kappa;
    job->mixtures += !is_sampled;
    job->taken_back = fa_max(job->taken_back, fa_mix_dip(pair));
}

/* of a sampled Gaussian */
FA_FUNC void fa_cap_job_add(fa_cap_job *job, double sigma, double q, double steps)
{
    fa_pair *own = &job->blocks[job->n].own;
    fa_pair_sampled(own, sigma, q);
    fa_cap_job_add_pair(job, own, steps);
}

/* steps of one sampled Gaussian alone; 0: no memory */
FA_FUNC int fa_cap_job_set(fa_cap_job *job, double sigma, double q, double steps)
{
    if (!fa_cap_job_clear(job, 1))
        return 0;
    fa_cap_job_add(job, sigma, q, steps);
    return 1;
}

/* exp of a bound's logarithm: inf beyond what any use of it can bring back */
FA_INLINE double fa_cap_exp(double x) { return x > 300.0 ? INFINITY : exp(x); }

/* the same of an entry of a ledger: at another eps it is larger by its rate, and so does not underflow */
FA_INLINE double fa_cap_entry(double x) { return fa_cap_exp(x < -600.0 ? -600.0 : x); }

/* the same in loops: a factor on an upper bound */
FA_INLINE double fa_cap_swell(double x) { return x <= 690.0 ? fa_exp_plain_v(x) : INFINITY; }

/* z where one step's loss is `loss` > log(1-q) */
FA_INLINE double fa_cap_z(const fa_cap_block *block, double loss)
{
    return block->pair ? fa_mix_z(block->pair, loss - block->kappa) : loss;
}

/* l(z) = loss - log(1-q) >= 0 */
FA_INLINE double fa_cap_l(const fa_cap_block *block, double z)
{
    double moved;
    return block->pair ? fa_mix_l(block->pair, z, &moved) : z - block->kappa;
}

/* dl/dz sigma^2: 0 where a record is hardly touched, 1 where it surely took part */
FA_INLINE double fa_cap_posterior(const fa_cap_block *block, double z)
{
    double moved = 1.0;
    if (block->pair)
        (void)fa_mix_l(block->pair, z, &moved);
    return fa_max(moved, 1e-300);
}

/* the chances beyond the cap */
FA_FUNC void fa_cap_set_tails(fa_cap_block *block, double sd)
{
    fa_cap_windows *w = &block->w;
    double less;
    fa_mix_tails(block->pair, w->cap, sd, &w->log_q, &w->log_p, &less);
    w->depth = (w->cap - block->pair->q_low) / sd;
    w->off = 16.0 + 16.0 * w->depth * w->depth + 8.0 * block->log_most;
    w->q_mass = exp(w->log_q);
    w->gain = exp(w->log_p) - exp(less);
    w->lost = exp(less - w->log_p);
    if (!block->grows) { /* what is beyond is worth nothing, and counted as an error */
        w->gain = w->lost = 0.0;
        w->log_p = w->log_q - 50.0;
    }
}

/* a cap of this width whose window begins at z; 0 where there is none in doubles */
FA_FUNC int fa_cap_set_cap(fa_cap_block *block, double z, double width)
{
    fa_cap_windows *w = &block->w;
    w->width = width;
    w->cap = z + FA_CAP_DEPTH * width;
    if (!(w->width > 1e-12 * fabs(w->cap)) || !(w->cap < 1e100))
        return 0;
    fa_cap_set_tails(block, sqrt(block->sigma * block->sigma + w->width * w->width));
    return w->gain >= 0.0;
}

/* the cap of one block whose window begins at z: as wide as cap_ratio makes it in the loss, but no wider than lets the
 * noise outweigh its left end.  0 where there is none */
FA_FUNC int fa_cap_begin_at(fa_cap_block *block, const fa_cap_effort *effort, double z)
{
    double s = block->sigma, l = fa_cap_l(block, z),
           end = l > 0.0 ? fa_cap_z(block, effort->cap_ratio * l + block->kappa) : INFINITY;
    return fa_cap_set_cap(block, z, fa_min((end - z) / FA_CAP_DEPTH, fa_min(0.5 * s, 5.0 * s * s / fa_max(z, s))));
}

#endif

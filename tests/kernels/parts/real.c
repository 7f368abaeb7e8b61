/* real.c -- K of a capped line at real exponents (line/capped_real.h), of nodes made by hand. */
#include "parts.h"

#include "line/capped_real.h"

/* K, its slope and curvature, steps times the tilted chance of a large loss, of 8 nodes: losses, weights, and what of
 * these is large */
void moment(double steps, double mean, double missing, double v, double add, const double *loss, const double *weight,
            const double *large, double *out)
{
    static double lanes[3][64];
    fa_cap_block block;
    fa_cap_real r;
    int j;
    memset(&block, 0, sizeof(block));
    for (j = 0; j < 8; j++)
        lanes[0][j] = loss[j], lanes[1][j] = weight[j], lanes[2][j] = large[j];
    block.steps = steps;
    block.w.q_mass = missing;
    block.nodes.sum.n = block.nodes.seen = block.nodes.lifted = 8;
    block.nodes.sum.lr = lanes[0], block.nodes.sum.wr = lanes[1], block.nodes.large = lanes[2];
    block.nodes.small = lanes[1];
    block.nodes.mean = mean;
    r = fa_cap_block_k(&block, &block.nodes, v, 0, add);
    out[0] = r.k, out[1] = r.d1, out[2] = r.d2, out[3] = r.jumps;
}

/* start.c -- the phasors of a capped line where they begin (line/capped_line.h). */
#include "parts.h"

#include "line/capped_line.h"

/* cos(x) - 1, sin(x), sin(x) - x */
void turned(double x, double *out) { out[0] = fa_cap_turn(x, out + 1, out + 2); }

/* E2(p + i x), from a node of weight 1 with loss 1 */
void started(double p, double x, double *out)
{
    double one = 1.0, none = 0.0, rest[4];
    fa_cap_nodes s;
    memset(&s, 0, sizeof(s));
    s.sum.n = 1;
    s.sum.lr = s.sum.wr = &one;
    s.sum.log_w = s.sum.fr = s.sum.fi = s.first_r = s.first_i = &none;
    s.sum.vr = out, s.sum.vi = out + 1, s.sum.gr = rest, s.sum.gi = rest + 1;
    fa_cap_start(&s, p, x, 0.0);
}

/* density/phases.h -- sums of weights times exp(i t loss): the moments of a vertical line, panel by panel, and the line
 * itself at an epsilon.  fastacct/readers/line_nodes.py and line.py bound what is rounded here.
 */
#ifndef FA_PHASES_H
#define FA_PHASES_H

#include <math.h>
#include <stdint.h>

#define FA_SIDE     5 /* steps to either side of a middle */
#define FA_TOGETHER (2 * FA_SIDE + 1)
#define FA_BLOCK    64

/* per panel, of n_points nodes each: the sums of w cos(t loss) and w sin(t loss), one after the other */
static inline void fa_phases_at(int64_t n_panels, int64_t n_points, const double *weights, const double *losses,
                                double t, double *out)
{
    int64_t p, k;
    for (p = 0; p < n_panels; p++) {
        double re = 0.0, im = 0.0;
        for (k = p * n_points; k < (p + 1) * n_points; k++) {
            double angle = t * losses[k];
            re += weights[k] * cos(angle);
            im += weights[k] * sin(angle);
        }
        out[2 * p] = re;
        out[2 * p + 1] = im;
    }
}

/* Weights times the cosines and sines of the steps to one side, FA_SIDE + 1 pairs a node: 2, 3 and 5 are products of 1
 * and 4. */
static inline void fa_phases_near(int64_t n_nodes, const double *weights, const double *losses, double h, double *near)
{
    int64_t k;
    for (k = 0; k < n_nodes; k++, near += 2 * (FA_SIDE + 1)) {
        double w = weights[k], one = h * losses[k], four = h * 4.0 * losses[k];
        double c1 = cos(one), s1 = sin(one), c4 = cos(four), s4 = sin(four);
        near[0] = w;
        near[1] = 0.0;
        near[2] = w * c1;
        near[3] = w * s1;
        near[4] = w * (c1 * c1 - s1 * s1);
        near[5] = w * (2.0 * c1 * s1);
        near[6] = w * (c4 * c1 + s4 * s1);
        near[7] = w * (s4 * c1 - c4 * s1);
        near[8] = w * c4;
        near[9] = w * s4;
        near[10] = w * (c4 * c1 - s4 * s1);
        near[11] = w * (s4 * c1 + c4 * s1);
    }
}

/* FA_TOGETHER rows of n_panels complex numbers: the points t + j h, j from -FA_SIDE on */
static inline void fa_phases_block(int64_t n_panels, int64_t n_points, const double *losses, const double *near,
                                   double t, double *out)
{
    int64_t p, k;
    int j;
    for (p = 0; p < n_panels; p++) {
        double cc[FA_SIDE + 1] = {0.0}, ss[FA_SIDE + 1] = {0.0}, cs[FA_SIDE + 1] = {0.0}, sc[FA_SIDE + 1] = {0.0};
        for (k = p * n_points; k < (p + 1) * n_points; k++) {
            double angle = t * losses[k], c = cos(angle), s = sin(angle);
            for (j = 0; j <= FA_SIDE; j++, near += 2) {
                cc[j] += c * near[0];
                ss[j] += s * near[1];
                cs[j] += c * near[1];
                sc[j] += s * near[0];
            }
        }
        for (j = 0; j <= FA_SIDE; j++) {
            double *right = out + 2 * ((FA_SIDE + j) * n_panels + p), *left = out + 2 * ((FA_SIDE - j) * n_panels + p);
            left[0] = cc[j] + ss[j];
            left[1] = sc[j] - cs[j];
            right[0] = cc[j] - ss[j];
            right[1] = sc[j] + cs[j];
        }
    }
}

/* The sums of size cos(angle) and of size t sin(angle), angle = phase - eps t: by blocks, so that 4,096 terms are
 * rounded like 128. */
static inline void fa_phases_line(int64_t n, const double *size, const double *phase, const double *t, double eps,
                                  double *sum_out, double *slope_out)
{
    double sum = 0.0, slope = 0.0;
    int64_t start, k;
    for (start = 0; start < n; start += FA_BLOCK) {
        double some = 0.0, rise = 0.0;
        for (k = start; k < n && k < start + FA_BLOCK; k++) {
            double angle = phase[k] - eps * t[k];
            some += size[k] * cos(angle);
            rise += size[k] * t[k] * sin(angle);
        }
        sum += some;
        slope += rise;
    }
    *sum_out = sum;
    *slope_out = slope;
}

/* the sum of size times the size of the numbers whose rounding the exponents and angles carry */
static inline double fa_phases_size(int64_t n, const double *size, const double *log_f, const double *phase,
                                    const double *t, double eps, double fall, double more)
{
    double sum = 0.0;
    int64_t k;
    for (k = 0; k < n; k++)
        sum += size[k] * (fabs(log_f[k] - fall) + fabs(phase[k]) + t[k] * eps + more);
    return sum;
}

#endif

/* sum_ij w_i v_j exp(-|x_i - y_j|^2 / 2 l^2), in double precision and constant memory.
 *
 * DIMENSION is set by the compiler's command line, so that the loop over coordinates unrolls.
 * A tile of ROWS x COLUMNS exponents stays in the first-level cache: one pass fills it with
 * fused multiply-adds, a second one sends it through the vector exp of libmvec. */
#include <math.h>
#include <stdlib.h>

#define ROWS 6
#define COLUMNS 256

/* Columns lie side by side for each coordinate, scaled by 1 / l; the last, partial tile is
 * padded with zeros, whose weights are zero, too. */
typedef struct {
    double coordinate[DIMENSION][COLUMNS];
    double half_norm[COLUMNS];
    double weight[COLUMNS];
} Tile;

static void fill_tile(Tile *tile, const double *y, const double *v, long count, double scale)
{
    for (long j = 0; j < COLUMNS; j++) {
        double norm = 0.0;
        for (int k = 0; k < DIMENSION; k++) {
            double value = j < count ? scale * y[j * DIMENSION + k] : 0.0;
            tile->coordinate[k][j] = value;
            norm += value * value;
        }
        tile->half_norm[j] = 0.5 * norm;
        tile->weight[j] = j < count ? v[j] : 0.0;
    }
}

static void fill_exponents(double exponent[ROWS][COLUMNS], const double row[ROWS][DIMENSION],
                           const double half_norm[ROWS], const Tile *tile)
{
#pragma omp simd
    for (int j = 0; j < COLUMNS; j++) {
        double sum[ROWS];
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++)
            sum[i] = -half_norm[i] - tile->half_norm[j];
#pragma GCC unroll 64
        for (int k = 0; k < DIMENSION; k++) {
#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++)
                sum[i] += row[i][k] * tile->coordinate[k][j];
        }
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++)
            exponent[i][j] = sum[i];
    }
}

static double weighted_exponentials(const double exponent[COLUMNS], const double weight[COLUMNS])
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < COLUMNS; j++)
        sum += weight[j] * exp(exponent[j]);
    return sum;
}

static void load_rows(double row[ROWS][DIMENSION], double half_norm[ROWS], const double *x,
                      long count, double scale)
{
    for (long i = 0; i < ROWS; i++) {
        half_norm[i] = 0.0;
        for (int k = 0; k < DIMENSION; k++) {
            row[i][k] = i < count ? scale * x[i * DIMENSION + k] : 0.0;
            half_norm[i] += 0.5 * row[i][k] * row[i][k];
        }
    }
}

static double rows_against_tiles(const double *x, const double *w, long count, const Tile *tiles,
                                 long number_of_tiles, double scale)
{
    double row[ROWS][DIMENSION], half_norm[ROWS], sum[ROWS] = {0.0}, total = 0.0;
    double exponent[ROWS][COLUMNS] __attribute__((aligned(64)));

    load_rows(row, half_norm, x, count, scale);
    for (long t = 0; t < number_of_tiles; t++) {
        fill_exponents(exponent, row, half_norm, &tiles[t]);
        for (int i = 0; i < ROWS; i++)
            sum[i] += weighted_exponentials(exponent[i], tiles[t].weight);
    }
    for (long i = 0; i < ROWS && i < count; i++)
        total += w[i] * sum[i];
    return total;
}

static long smaller(long a, long b)
{
    return a < b ? a : b;
}

double weighted_sum(const double *x, const double *w, long n, const double *y, const double *v,
                    long m, double lengthscale)
{
    long number_of_tiles = (m + COLUMNS - 1) / COLUMNS;
    Tile *tiles = aligned_alloc(64, number_of_tiles * sizeof(Tile));
    double scale = 1.0 / lengthscale, total = 0.0;

    for (long t = 0; t < number_of_tiles; t++) {
        long first = t * COLUMNS;
        fill_tile(&tiles[t], y + first * DIMENSION, v + first, smaller(COLUMNS, m - first), scale);
    }
#pragma omp parallel for reduction(+ : total) schedule(static)
    for (long i = 0; i < n; i += ROWS)
        total += rows_against_tiles(x + i * DIMENSION, w + i, smaller(ROWS, n - i), tiles,
                                    number_of_tiles, scale);
    free(tiles);
    return total;
}

/* Where a projectile lands: theta = speed and angle (degrees), u = wind and a gust, normal.
   usage: projectile SPEED ANGLE WIND GUST; prints the range and the time of flight. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: projectile SPEED ANGLE WIND GUST\n");
        return 2;
    }
    double speed = atof(arguments[1]), angle = atof(arguments[2]) * acos(-1.0) / 180;
    double wind = 2 * atof(arguments[3]), gust = atof(arguments[4]);
    double x = 0, y = 0, t = 0, step = 1e-4;
    double vx = speed * cos(angle), vy = speed * sin(angle);
    do {
        double air = wind + gust * sin(t);
        vx += step * 0.1 * (air - vx);
        vy -= step * (9.81 + 0.1 * vy);
        x += step * vx;
        y += step * vy;
        t += step;
    } while (y > 0);
    printf("%.17g %.17g\n", x, t);
    return 0;
}

/* Elementary functions in plain f32 arithmetic: the libraries' own differ between host and boards in the last bit. */
#ifndef POET_OPS_MATHEMATICS_H
#define POET_OPS_MATHEMATICS_H

/* Within 2 units in the last place; 0 below -103.98, infinity above 88.73. */
float poet_exp(float x);

/* Within 2 units in the last place; -infinity at 0, NaN below. */
float poet_log(float x);

#endif

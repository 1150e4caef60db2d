/* SPDX-License-Identifier: Apache-2.0 */
/* Fits y = 3x - 1 on all ranks, in C: each rank has other points, and all ranks make the same updates.
 *   mpirun -np 2 ./c_train */
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* guide train: begin */
static void require(int code) {
  if (code == LOCKSTEP_SUCCESS) return;
  fprintf(stderr, "c_train: %s\n", lockstep_last_error()); /* names rank, host and operation */
  exit(1);
}

int main(void) {
  lockstep_group* group = NULL;
  lockstep_parallel* parallel = NULL;
  float line[2] = {0, 0}, gradient[2]; /* slope and offset */
  lockstep_parameter parameter = {sizeof parameter, "line", line, gradient, 2};
  require(lockstep_group_from_environment(NULL, &group));
  require(lockstep_parallel_create(group, LOCKSTEP_FLOAT32, &parameter, 1, NULL, &parallel));
  /* guide train: end */
  enum { points = 64 };
  int rank = 0;
  double loss = 0;
  require(lockstep_group_rank(group, &rank));
  for (int step = 0; step < 400; ++step) {
    gradient[0] = gradient[1] = 0;
    loss = 0;
    for (int i = 0; i < points; ++i) {
      const float x = (float)((rank * points + i) % 97) / 97;
      const float error = line[0] * x + line[1] - (3 * x - 1);
      gradient[0] += 2 * error * x;
      gradient[1] += 2 * error;
      loss += error * error;
    }
    /* guide step: begin */
    lockstep_step result = LOCKSTEP_INIT(lockstep_step);
    require(lockstep_parallel_ready(parallel, 0, NULL));                    /* its reduction begins */
    require(lockstep_parallel_finish(parallel, points, &loss, 1, &result)); /* sums over all ranks */
    for (int i = 0; i < 2; ++i) line[i] -= 0.5F * gradient[i] / (float)result.weight;
    /* guide step: end */
    loss /= result.weight;
  }
  if (rank == 0) printf("y = %.3fx %+.3f, loss %.2e\n", line[0], line[1], loss);
  /* guide end: begin */
  require(lockstep_parallel_free(parallel));
  require(lockstep_group_close(group));
  /* guide end: end */
  return fabsf(line[0] - 3) < 0.01F && fabsf(line[1] + 1) < 0.01F ? 0 : 1;
}

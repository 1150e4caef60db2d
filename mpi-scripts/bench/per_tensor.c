/* SPDX-License-Identifier: Apache-2.0 */
/* Sums the gradients of ResNet-18 over the ranks in two ways, which take turns: by one MPI_Allreduce for each tensor,
 * as TorchFort does after backward, and by lockstep_parallel_finish. Prints the medians of rank 0 in milliseconds. */
#include <lockstep.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { most_tensors = 64, warm_up = 3 };

static void require(int code) {
  if (code == LOCKSTEP_SUCCESS) return;
  fprintf(stderr, "per_tensor: %s\n", lockstep_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The tensors of torchvision's resnet18, in the order of its parameters. */
static int tensors_of_resnet18(int* counts) {
  static const int widths[] = {64, 128, 256, 512};
  int number = 0;
  counts[number++] = 64 * 3 * 7 * 7;
  counts[number++] = 64;
  counts[number++] = 64;
  int before = 64;
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < 2; ++block) {
      const int width = widths[stage];
      const int in = block == 0 ? before : width;
      const int convolutions[] = {width * in * 9, width * width * 9, block == 0 && stage > 0 ? width * in : 0};
      for (int k = 0; k < 3; ++k) {
        if (convolutions[k] == 0) continue;
        counts[number++] = convolutions[k];
        counts[number++] = width; /* scale and shift of the normalization */
        counts[number++] = width;
      }
      before = width;
    }
  counts[number++] = 512 * 1000;
  counts[number++] = 1000;
  return number;
}

static int in_order(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, in_order);
  return values[count / 2];
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 30;
  int counts[most_tensors];
  lockstep_parameter parameters[most_tensors];
  float* gradients[most_tensors];
  int rank = 0, wrong = 0, provided = 0;
  long elements = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  lockstep_group* group = NULL;
  lockstep_parallel* parallel = NULL;
  require(lockstep_group_from_mpi(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, &group));
  const int tensors = tensors_of_resnet18(counts);
  for (int i = 0; i < tensors; ++i) {
    gradients[i] = malloc((size_t)counts[i] * sizeof(float));
    const lockstep_parameter parameter = {sizeof parameter, "tensor", calloc((size_t)counts[i], sizeof(float)), NULL,
                                          counts[i]};
    parameters[i] = parameter;
    elements += counts[i];
    char* const name = malloc(16);
    snprintf(name, 16, "tensor %d", i);
    parameters[i].name = name;
  }
  require(lockstep_parallel_create(group, LOCKSTEP_FLOAT32, parameters, tensors, NULL, &parallel));
  double* const by_mpi = malloc((size_t)rounds * sizeof(double));
  double* const by_lockstep = malloc((size_t)rounds * sizeof(double));
  for (int round = -warm_up; round < rounds; ++round) {
    for (int i = 0; i < tensors; ++i) {
      void* own = NULL;
      require(lockstep_parallel_gradient(parallel, i, &own));
      for (int k = 0; k < counts[i]; ++k) gradients[i][k] = ((float*)own)[k] = (float)(rank + k % 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = tensors - 1; i >= 0; --i) /* in the order in which backward completes them */
      MPI_Allreduce(MPI_IN_PLACE, gradients[i], counts[i], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (round >= 0) by_mpi[round] = 1e3 * (MPI_Wtime() - begin);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = tensors - 1; i >= 0; --i) require(lockstep_parallel_ready(parallel, i, NULL));
    require(lockstep_parallel_finish(parallel, 1, NULL, 0, NULL));
    if (round >= 0) by_lockstep[round] = 1e3 * (MPI_Wtime() - begin);
    for (int i = 0; i < tensors; ++i) {
      void* own = NULL;
      require(lockstep_parallel_gradient(parallel, i, &own));
      for (int k = 0; k < counts[i]; ++k) wrong += gradients[i][k] != ((float*)own)[k];
    }
  }
  if (rank == 0) {
    const double theirs = median(by_mpi, rounds);
    const double ours = median(by_lockstep, rounds);
    printf("%d tensors, %ld elements: one MPI_Allreduce each %.2f ms, lockstep %.2f ms, ratio %.2f\n", tensors,
           elements, theirs, ours, theirs / ours);
  }
  require(lockstep_parallel_free(parallel));
  require(lockstep_group_close(group));
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}

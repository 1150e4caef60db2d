/* SPDX-License-Identifier: Apache-2.0 */
/* What lockstep.h promises, from C: on any number of ranks. */
#include <lockstep.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failures = 0;
static int rank = 0;
static int ranks = 1;

#define CHECK(condition) check(condition, #condition, __LINE__)
#define GOOD(call) check_code(call, LOCKSTEP_SUCCESS, #call, __LINE__)
#define FAILS(code, call) check_code(call, code, #call, __LINE__)

static void check(int is_good, const char* text, int line) {
  if (is_good) return;
  ++failures;
  fprintf(stderr, "c_test.c:%d: rank %d: not true: %s\n", line, rank, text);
}

static void check_code(int code, int expected, const char* text, int line) {
  if (code == expected) return;
  ++failures;
  fprintf(stderr, "c_test.c:%d: rank %d: %s gave '%s', not '%s': %s\n", line, rank, text, lockstep_code_name(code),
          lockstep_code_name(expected), lockstep_last_error());
}

static int says(const char* part) { return strstr(lockstep_last_error(), part) != NULL; }

static void check_versions(void) {
  CHECK(lockstep_abi_version() == LOCKSTEP_ABI_VERSION);
  CHECK(strchr(lockstep_version(), '.') != NULL);
  CHECK(strcmp(lockstep_code_name(LOCKSTEP_SUCCESS), "success") == 0);
  CHECK(strcmp(lockstep_code_name(LOCKSTEP_MISMATCH), "mismatch") == 0);
  CHECK(strcmp(lockstep_code_name(LOCKSTEP_INTERNAL), "internal") == 0);
  CHECK(strcmp(lockstep_code_name(99), "unknown") == 0);
  CHECK(strcmp(lockstep_last_error(), "") == 0);
}

static void check_refusals(lockstep_group* group) {
  float x[2] = {1, 2};
  lockstep_group* other = NULL;
  lockstep_group_options options = {0}; /* without its size */
  lockstep_call call = LOCKSTEP_INIT(lockstep_call);
  struct {
    lockstep_call known;
    int later;
  } larger;
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_reduce(NULL, x, x, 2, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, NULL));
  CHECK(says("group is a null pointer"));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_reduce(group, x, x, 2, 77, LOCKSTEP_SUM, NULL));
  CHECK(says("77"));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_reduce(group, x, x, 2, LOCKSTEP_FLOAT32, -3, NULL));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_reduce(group, x, x, 2, LOCKSTEP_FLOAT32, LOCKSTEP_BIT_AND, NULL));
  CHECK(says("bit_and is for integers and bool, not for float32"));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_reduce(group, x, x, -2, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, NULL));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_gather(group, x, x, INT64_MAX, LOCKSTEP_FLOAT32, NULL));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_broadcast(group, x, 2, LOCKSTEP_FLOAT32, ranks, NULL));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_from_environment(&options, &other));
  CHECK(says("LOCKSTEP_INIT(lockstep_group_options)"));
  options.size = sizeof options;
  options.algorithm = "rign";
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_groups_of_threads(1, &options, &other));
  CHECK(says("ring"));
  options.algorithm = NULL;
  options.device = 5;
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_groups_of_threads(1, &options, &other));
  call.memory = 9;
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_barrier(group, &call));
  call.memory = LOCKSTEP_DEVICE_MEMORY;
  FAILS(LOCKSTEP_UNSUPPORTED, lockstep_all_reduce(group, x, x, 2, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, &call));
  memset(&larger, 0, sizeof larger);
  larger.known.size = sizeof larger;
  GOOD(lockstep_barrier(group, &larger.known)); /* of a later version, whose new fields have their defaults */
  larger.later = 1;
  FAILS(LOCKSTEP_UNSUPPORTED, lockstep_barrier(group, &larger.known));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_split(group, -2, 0, &other));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_free(group, x));
  GOOD(lockstep_free(group, NULL));
  GOOD(lockstep_group_close(NULL));
  GOOD(lockstep_wait(NULL));
  GOOD(lockstep_parallel_free(NULL));
  lockstep_error error = LOCKSTEP_INIT(lockstep_error);
  FAILS(LOCKSTEP_CORRUPT, lockstep_set_error(LOCKSTEP_CORRUPT, "a binding's own"));
  CHECK(says("a binding's own"));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_free(group, x));
  GOOD(lockstep_error_details(&error));
  CHECK(error.code == LOCKSTEP_INVALID_ARGUMENT && strstr(error.message, "not of lockstep_allocate") != NULL);
}

static void check_collectives(lockstep_group* group) {
  int32_t one = rank + 1;
  int32_t sum = 0;
  int32_t all[64];
  int32_t parts[64];
  int64_t counts[64];
  GOOD(lockstep_all_reduce(group, &one, &sum, 1, LOCKSTEP_INT32, LOCKSTEP_SUM, NULL));
  CHECK(sum == ranks * (ranks + 1) / 2);
  GOOD(lockstep_reduce(group, &one, &sum, 1, LOCKSTEP_INT32, LOCKSTEP_MAX, 0, NULL));
  CHECK(rank != 0 || sum == ranks);
  sum = rank;
  GOOD(lockstep_broadcast(group, &sum, 1, LOCKSTEP_INT32, ranks - 1, NULL));
  CHECK(sum == ranks - 1);
  GOOD(lockstep_all_gather(group, &one, all, 1, LOCKSTEP_INT32, NULL));
  for (int r = 0; r < ranks; ++r) CHECK(all[r] == r + 1);
  memset(all, 0, sizeof all);
  GOOD(lockstep_gather(group, &one, all, 1, LOCKSTEP_INT32, 0, NULL));
  for (int r = 0; r < ranks && rank == 0; ++r) CHECK(all[r] == r + 1);
  for (int r = 0; r < ranks; ++r) all[r] = 10 * r + 1;
  GOOD(lockstep_scatter(group, all, &sum, 1, LOCKSTEP_INT32, ranks - 1, NULL));
  CHECK(sum == 10 * rank + 1);
  GOOD(lockstep_reduce_scatter(group, all, &sum, 1, LOCKSTEP_INT32, LOCKSTEP_SUM, NULL));
  CHECK(sum == ranks * (10 * rank + 1));
  for (int r = 0; r < ranks; ++r) all[r] = 100 * rank + r;
  GOOD(lockstep_all_to_all(group, all, parts, 1, LOCKSTEP_INT32, NULL));
  for (int r = 0; r < ranks; ++r) CHECK(parts[r] == 100 * r + rank);
  for (int r = 0; r < ranks; ++r) counts[r] = r == 0 ? 2 : 1;
  const int64_t mine = counts[rank];
  const int32_t own[2] = {rank, -rank};
  GOOD(lockstep_all_gather_v(group, own, parts, counts, LOCKSTEP_INT32, NULL));
  for (int r = 1; r < ranks; ++r) CHECK(parts[r + 1] == r);
  for (int i = 0; i <= ranks; ++i) all[i] = i;
  GOOD(lockstep_reduce_scatter_v(group, all, parts, counts, LOCKSTEP_INT32, LOCKSTEP_SUM, NULL));
  for (int64_t i = 0; i < mine; ++i) CHECK(parts[i] == ranks * (int32_t)(rank == 0 ? i : rank + 1));
  for (int r = 0; r < ranks; ++r) counts[r] = 1;
  GOOD(lockstep_all_to_all_v(group, all, counts, parts, counts, LOCKSTEP_INT32, NULL));
  for (int r = 0; r < ranks; ++r) CHECK(parts[r] == rank);
  GOOD(lockstep_scan(group, &one, &sum, 1, LOCKSTEP_INT32, LOCKSTEP_SUM, NULL));
  CHECK(sum == (rank + 1) * (rank + 2) / 2);
  GOOD(lockstep_exclusive_scan(group, &one, &sum, 1, LOCKSTEP_INT32, LOCKSTEP_SUM, NULL));
  CHECK(sum == rank * (rank + 1) / 2);
  GOOD(lockstep_barrier(group, NULL));
  const float pair[2] = {1, -2};
  float pairs[2];
  GOOD(lockstep_all_reduce(group, pair, pairs, 1, LOCKSTEP_COMPLEX64, LOCKSTEP_SUM, NULL));
  CHECK(pairs[0] == (float)ranks && pairs[1] == -2 * (float)ranks);
}

/* Operations that are under way, messages in a ring among them. */
static void check_works(lockstep_group* group) {
  enum { operations = 5, count = 20000 };
  double* values = NULL;
  lockstep_work* works[operations + 2];
  double token[2] = {rank, -1};
  int done = 0;
  GOOD(lockstep_allocate(group, operations * count * (int64_t)sizeof(double), (void**)&values));
  for (int i = 0; i < operations * count; ++i) values[i] = rank + i % 7;
  for (int k = 0; k < operations; ++k) {
    lockstep_call call = LOCKSTEP_INIT(lockstep_call);
    call.label = "of c_test";
    call.work = &works[k];
    GOOD(lockstep_all_reduce(group, values + k * count, values + k * count, count, LOCKSTEP_FLOAT64, LOCKSTEP_SUM,
                             &call));
  }
  lockstep_call call = LOCKSTEP_INIT(lockstep_call);
  call.work = &works[operations];
  GOOD(lockstep_send(group, &token[0], 1, LOCKSTEP_FLOAT64, (rank + 1) % ranks, &call));
  call.work = &works[operations + 1];
  GOOD(lockstep_recv(group, &token[1], 1, LOCKSTEP_FLOAT64, (rank + ranks - 1) % ranks, &call));
  while (!done) GOOD(lockstep_test(works[operations - 1], &done));
  for (int k = operations + 1; k >= 0; --k) GOOD(lockstep_wait(works[k]));
  CHECK(token[1] == (rank + ranks - 1) % ranks);
  for (int i = 0; i < operations * count; ++i)
    if (values[i] != ranks * (ranks - 1) / 2 + ranks * (i % 7)) CHECK(!"a sum is wrong");
  lockstep_prepared* prepared = NULL;
  GOOD(lockstep_prepare_all_reduce(group, values, values, 3, LOCKSTEP_FLOAT64, LOCKSTEP_MAX, NULL, &prepared));
  for (int start = 0; start < 3; ++start) {
    values[0] = values[1] = values[2] = rank * 10 + start;
    GOOD(lockstep_prepared_start(prepared));
    GOOD(lockstep_prepared_wait(prepared));
    GOOD(lockstep_prepared_test(prepared, &done));
    CHECK(done && values[2] == (ranks - 1) * 10 + start);
  }
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_close(group));
  CHECK(says("release it first"));
  GOOD(lockstep_prepared_free(prepared));
  GOOD(lockstep_free(group, values));
}

static void* sum_on_another_thread(void* group) {
  int64_t sum = 1;
  GOOD(lockstep_all_reduce(group, &sum, &sum, 1, LOCKSTEP_INT64, LOCKSTEP_SUM, NULL));
  CHECK(sum == ranks);
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_all_reduce(NULL, &sum, &sum, 1, LOCKSTEP_INT64, LOCKSTEP_SUM, NULL));
  return NULL;
}

static void check_threads(lockstep_group* group) {
  pthread_t thread;
  lockstep_error before = LOCKSTEP_INIT(lockstep_error);
  lockstep_error after = LOCKSTEP_INIT(lockstep_error);
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_parallel_gradient(NULL, 0, NULL));
  GOOD(lockstep_error_details(&before));
  CHECK(pthread_create(&thread, NULL, sum_on_another_thread, group) == 0);
  pthread_join(thread, NULL);
  GOOD(lockstep_error_details(&after));
  CHECK(after.message == before.message); /* each thread has its own */
  sum_on_another_thread(group);
}

static void check_parallel(lockstep_group* group) {
  float weights[6] = {(float)rank, 1, 2, 3, 4, 5};
  float bias[2] = {7, (float)(rank * rank)};
  float gradient[6];
  float moved[6];
  void* of_bias = NULL;
  lockstep_parameter parameters[2] = {
      {sizeof(lockstep_parameter), "weights", weights, gradient, 6},
      {sizeof(lockstep_parameter), "bias", bias, NULL, 2},
  };
  lockstep_parallel_options options = LOCKSTEP_INIT(lockstep_parallel_options);
  lockstep_parallel* parallel = NULL;
  lockstep_step step = LOCKSTEP_INIT(lockstep_step);
  double loss = 0.5 * (rank + 1);
  double waited = -1;
  int buckets = 0;
  options.check_finite = 1;
  GOOD(lockstep_parallel_create(group, LOCKSTEP_FLOAT32, parameters, 2, &options, &parallel));
  CHECK(weights[0] == 0 && bias[1] == 0); /* rank 0's */
  GOOD(lockstep_parallel_gradient(parallel, 1, &of_bias));
  ((float*)of_bias)[0] = 1;
  ((float*)of_bias)[1] = (float)rank;
  for (int i = 0; i < 6; ++i) gradient[i] = (float)i;
  GOOD(lockstep_parallel_ready(parallel, 1, NULL));
  GOOD(lockstep_parallel_progress(parallel));
  GOOD(lockstep_parallel_ready(parallel, 0, NULL));
  GOOD(lockstep_parallel_finish(parallel, 2, &loss, 1, &step));
  CHECK(step.weight == 2 * ranks && step.unused_count == 0 && step.not_finite_count == 0);
  CHECK(loss == 0.25 * ranks * (ranks + 1));
  CHECK(((float*)of_bias)[1] == (float)(ranks * (ranks - 1) / 2) && gradient[5] == 5 * (float)ranks);
  /* Two backward passes, the second with a gradient that has moved and is not finite on the last rank. */
  GOOD(lockstep_parallel_no_sync(parallel, 1));
  GOOD(lockstep_parallel_ready(parallel, 0, NULL));
  GOOD(lockstep_parallel_ready(parallel, 1, NULL));
  GOOD(lockstep_parallel_finish(parallel, 1, NULL, 0, NULL));
  GOOD(lockstep_parallel_no_sync(parallel, 0));
  for (int i = 0; i < 6; ++i) moved[i] = i == 3 && rank == ranks - 1 ? INFINITY : 1;
  GOOD(lockstep_parallel_ready(parallel, 0, moved));
  GOOD(lockstep_parallel_ready(parallel, 1, NULL));
  GOOD(lockstep_parallel_finish(parallel, 1, NULL, 0, &step));
  CHECK(step.weight == 2 * ranks && moved[0] == (float)ranks);
  CHECK(step.not_finite_count == 1 && step.not_finite[0] == 0 && step.not_finite_rank == ranks - 1);
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_parallel_ready(parallel, 2, NULL));
  GOOD(lockstep_parallel_number_steps_from(parallel, 41));
  GOOD(lockstep_parallel_ready(parallel, 1, NULL));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_parallel_ready(parallel, 1, NULL));
  CHECK(says("bias"));
  GOOD(lockstep_parallel_ready(parallel, 0, gradient));
  GOOD(lockstep_parallel_finish(parallel, 1, NULL, 0, &step));
  GOOD(lockstep_parallel_statistics(parallel, &waited, &buckets));
  CHECK(waited >= 0 && buckets >= 1);
  GOOD(lockstep_parallel_synchronize(parallel));
  GOOD(lockstep_parallel_free(parallel));
}

static void check_checkpoints(lockstep_group* group, const char* folder) {
  double state[4] = {1, 2, 3, 4.5};
  const int64_t extents[2] = {2, 2};
  int8_t flags[3] = {1, 0, -1};
  int64_t step = -7;
  int64_t epoch = 3;
  double rate = 0.125;
  float line[2] = {5, 6};
  float gradient[2] = {0, 0};
  const lockstep_parameter parameter = {sizeof parameter, "line", line, gradient, 2};
  lockstep_parallel* parallel = NULL;
  GOOD(lockstep_parallel_create(group, LOCKSTEP_FLOAT32, &parameter, 1, NULL, &parallel));
  for (int round = 0; round < 2; ++round) {
    lockstep_checkpoint* checkpoint = NULL;
    GOOD(lockstep_checkpoint_create(group, folder, 2, &checkpoint));
    GOOD(lockstep_checkpoint_add_tensor(checkpoint, "state", state, 4, LOCKSTEP_FLOAT64, extents, 2, 1));
    GOOD(lockstep_checkpoint_add_tensor(checkpoint, "flags", flags, 3, LOCKSTEP_INT8, NULL, 0, 0));
    GOOD(lockstep_checkpoint_add_parallel(checkpoint, parallel));
    FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_checkpoint_add_parallel(checkpoint, NULL));
    GOOD(lockstep_checkpoint_add_int64(checkpoint, "epoch", &epoch));
    GOOD(lockstep_checkpoint_add_double(checkpoint, "rate", &rate));
    FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_checkpoint_add_int64(checkpoint, "epoch", &epoch));
    if (round == 0) {
      GOOD(lockstep_checkpoint_restore(checkpoint, NULL, &step));
      CHECK(step == -1);
      GOOD(lockstep_checkpoint_save(checkpoint, 12));
      memset(state, 0, sizeof state);
      memset(flags, 0, sizeof flags);
      memset(line, 0, sizeof line);
      epoch = 0;
      rate = 0;
    } else {
      GOOD(lockstep_checkpoint_restore(checkpoint, NULL, &step));
      CHECK(step == 12 && state[3] == 4.5 && flags[2] == -1 && epoch == 3 && rate == 0.125);
      CHECK(line[0] == 5 && line[1] == 6);
      FAILS(LOCKSTEP_IO, lockstep_checkpoint_restore(checkpoint, "/nowhere", &step));
    }
    GOOD(lockstep_checkpoint_free(checkpoint));
  }
  GOOD(lockstep_parallel_free(parallel));
}

/* Ranks that call different operations learn who does, and can close the group then without another error. */
static void check_a_mismatch(lockstep_group* group) {
  lockstep_group* part = NULL;
  float values[3] = {0, 0, 0};
  GOOD(lockstep_group_split(group, rank == 0 && ranks > 2 ? -1 : 0, -rank, &part));
  if (part == NULL) return;
  int own = 0;
  int size = 0;
  GOOD(lockstep_group_rank(part, &own));
  GOOD(lockstep_group_size(part, &size));
  CHECK(size == (ranks > 2 ? ranks - 1 : ranks) && own == ranks - 1 - rank);
  const int code = lockstep_all_reduce(part, values, values, own == 0 ? 3 : 2, LOCKSTEP_FLOAT32, LOCKSTEP_SUM, NULL);
  lockstep_error error = LOCKSTEP_INIT(lockstep_error);
  CHECK(size == 1 ? code == LOCKSTEP_SUCCESS : code == LOCKSTEP_MISMATCH);
  if (size > 1) {
    GOOD(lockstep_error_details(&error));
    CHECK(says("all_reduce") && error.peer_count > 0 && strcmp(error.operation, "all_reduce") == 0);
  }
  GOOD(lockstep_group_close(part));
}

static void check_groups_of_threads(void) {
  lockstep_group* group = NULL;
  int size = 0;
  const char* host = NULL;
  int gpu = 0;
  GOOD(lockstep_groups_of_threads(1, NULL, &group));
  GOOD(lockstep_group_size(group, &size));
  GOOD(lockstep_group_host(group, &host));
  GOOD(lockstep_group_gpu(group, &gpu));
  CHECK(size == 1 && host[0] != '\0' && gpu == -1);
  GOOD(lockstep_group_abort(group, "it is enough"));
  FAILS(LOCKSTEP_TRANSPORT, lockstep_barrier(group, NULL));
  CHECK(says("it is enough"));
  GOOD(lockstep_group_close(group));
}

static int gather(void* context, const void* mine, size_t bytes, void* all) {
  lockstep_group* group = context;
  return lockstep_all_gather(group, mine, all, (int64_t)bytes, LOCKSTEP_UINT8, NULL);
}

static int gather_in_vain(void* context, const void* mine, size_t bytes, void* all) {
  (void)context, (void)mine, (void)bytes, (void)all;
  return 7;
}

static volatile int notices_of_waits;

static void count_wait(const char* text, void* context) {
  if (strstr(text, "has waited for other ranks") != NULL) ++notices_of_waits;
  (void)context;
}

/* A group whose last rank is late for an operation: at least one of the others says so, and each can be asked. */
static void check_watched_ranks(const char* store) {
  lockstep_group_options options = LOCKSTEP_INIT(lockstep_group_options);
  lockstep_group* group = NULL;
  char text[4000] = "?";
  int64_t notices = 0;
  options.notice = count_wait;
  options.late_after = -1;
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_from_folder(store, rank, ranks, &options, &group));
  options.late_after = 0.3;
  GOOD(lockstep_group_from_folder(store, rank, ranks, &options, &group));
  if (group == NULL) return;
  GOOD(lockstep_group_explain(group, text, sizeof text));
  CHECK(strstr(text, "rank") != NULL);
  GOOD(lockstep_group_explain(group, text, 1));
  CHECK(text[0] == '\0');
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_explain(group, text, 0));
  const time_t until = time(NULL) + (ranks > 1 && rank == ranks - 1 ? 2 : 0);
  while (time(NULL) < until) sleep(1); /* the signal for stacks ends a sleep */
  GOOD(lockstep_barrier(group, NULL));
  notices = notices_of_waits;
  GOOD(lockstep_all_reduce(group, &notices, &notices, 1, LOCKSTEP_INT64, LOCKSTEP_SUM, NULL));
  CHECK(ranks == 1 ? notices == 0 : notices > 0);
  GOOD(lockstep_group_close(group));
}

/* Groups of ranks that find each other by something else than MPI. */
static void check_other_ranks(lockstep_group* group, const char* folder) {
  char store[1000];
  snprintf(store, sizeof store, "%s/store", folder);
  for (int kind = 0; kind < 2; ++kind) {
    lockstep_group* other = NULL;
    int size = 0;
    int64_t sum = rank + 1;
    if (kind == 0) GOOD(lockstep_group_from_exchange(rank, ranks, gather, group, NULL, &other));
    if (kind == 1) GOOD(lockstep_group_from_folder(store, rank, ranks, NULL, &other));
    if (other == NULL) continue;
    GOOD(lockstep_group_size(other, &size));
    GOOD(lockstep_all_reduce(other, &sum, &sum, 1, LOCKSTEP_INT64, LOCKSTEP_SUM, NULL));
    CHECK(size == ranks && sum == (int64_t)ranks * (ranks + 1) / 2);
    GOOD(lockstep_group_close(other));
  }
  check_watched_ranks(store);
  lockstep_group* none = NULL;
  lockstep_group_options options = LOCKSTEP_INIT(lockstep_group_options);
  options.sockets = "no";
  options.checksum = 1;
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_from_exchange(rank, ranks, gather, group, &options, &none));
  CHECK(says("leave out `sockets no`, or the checksum"));
  FAILS(LOCKSTEP_TRANSPORT, lockstep_group_from_exchange(rank, ranks, gather_in_vain, NULL, NULL, &none));
  CHECK(says("all_gather returned 7"));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_from_exchange(rank, ranks, NULL, NULL, NULL, &none));
  FAILS(LOCKSTEP_INVALID_ARGUMENT, lockstep_group_from_folder(store, ranks, ranks, NULL, &none));
  CHECK(says("ranks are counted from 0"));
}

int main(int argc, char** argv) {
  lockstep_group* group = NULL;
  (void)argc;
  check_versions();
  GOOD(lockstep_group_from_environment(NULL, &group));
  if (group == NULL) return 1;
  GOOD(lockstep_group_rank(group, &rank));
  GOOD(lockstep_group_size(group, &ranks));
  check_refusals(group);
  check_collectives(group);
  check_works(group);
  check_threads(group);
  check_parallel(group);
  check_checkpoints(group, argv[1]);
  check_a_mismatch(group);
  check_groups_of_threads();
  check_other_ranks(group, argv[1]);
  int64_t all = failures;
  GOOD(lockstep_all_reduce(group, &all, &all, 1, LOCKSTEP_INT64, LOCKSTEP_SUM, NULL));
  GOOD(lockstep_group_close(group));
  return all + failures == 0 ? 0 : 1;
}

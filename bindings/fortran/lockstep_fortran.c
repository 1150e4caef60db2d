/* SPDX-License-Identifier: Apache-2.0 */
/* What module lockstep calls: lockstep.h with the compiler's array descriptors instead of pointers, counts and types.
 * It is compiled by the companion C compiler of the Fortran compiler, whose ISO_Fortran_binding.h it includes. */
#include <ISO_Fortran_binding.h>
#include <limits.h>
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { longest_text = 4096 };

/* The elements of an array, or of a scalar. */
typedef struct buffer {
  void* data;
  int64_t count;
  int dtype; /* -1: no type of lockstep, which lockstep then refuses */
  int is_contiguous;
} buffer;

static int dtype_of(const CFI_cdesc_t* array) {
  switch (array->type) {
    case CFI_type_float: return LOCKSTEP_FLOAT32;
    case CFI_type_double: return LOCKSTEP_FLOAT64;
    case CFI_type_int8_t: return LOCKSTEP_INT8;
    case CFI_type_int16_t: return LOCKSTEP_INT16;
    case CFI_type_int32_t: return LOCKSTEP_INT32;
    case CFI_type_int64_t: return LOCKSTEP_INT64;
    case CFI_type_float_Complex: return LOCKSTEP_COMPLEX64;
    case CFI_type_double_Complex: return LOCKSTEP_COMPLEX128;
    default: return -1;
  }
}

static buffer buffer_of(const CFI_cdesc_t* array) {
  buffer result = {NULL, 0, LOCKSTEP_FLOAT32, 1};
  if (array == NULL) return result; /* an optional argument that is not there */
  result.data = array->base_addr;
  result.count = 1;
  result.dtype = dtype_of(array);
  for (int i = 0; i < array->rank; ++i) result.count *= array->dim[i].extent;
  result.is_contiguous = array->rank == 0 || result.count <= 1 || CFI_is_contiguous(array) != 0;
  return result;
}

/* A text that ends with a zero, without trailing blanks. */
typedef struct text {
  char characters[longest_text];
} text;

static const char* text_of(const CFI_cdesc_t* given, text* room) {
  if (given == NULL) return NULL;
  size_t length = given->elem_len < longest_text - 1 ? given->elem_len : longest_text - 1;
  const char* from = given->base_addr;
  while (length > 0 && from[length - 1] == ' ') --length;
  memcpy(room->characters, from, length);
  room->characters[length] = '\0';
  return room->characters;
}

static int refuse(const char* message) { return lockstep_set_error(LOCKSTEP_INVALID_ARGUMENT, message); }

/* What is wrong with two arrays, whatever the operation; NULL if nothing is. */
static const char* complaint(const buffer* a, const buffer* b) {
  if (!a->is_contiguous || !b->is_contiguous)
    return "a strided section has no single address: pass a contiguous array, or a copy";
  if (a->dtype == -1 || b->dtype == -1) return "lockstep has no elements of this type: see enum lockstep_dtype";
  return a->dtype == b->dtype ? NULL : "in and out are arrays of different types";
}

static const char* const other_size = "in and out do not have the numbers of elements that this operation needs";

static lockstep_call call_with(const CFI_cdesc_t* label, text* room, lockstep_work** work) {
  lockstep_call call = LOCKSTEP_INIT(lockstep_call);
  call.label = text_of(label, room);
  call.work = work;
  return call;
}

/* out defaults to in, which is then overwritten. */
#define LOCKSTEP_F_CALL                                     \
  const buffer from = buffer_of(in);                        \
  const buffer to = out == NULL ? from : buffer_of(out);    \
  text room;                                                \
  const lockstep_call call = call_with(label, &room, work); \
  const char* const wrong = complaint(&from, &to);          \
  if (wrong != NULL) return refuse(wrong)
#define LOCKSTEP_F_REQUIRE(fits) \
  if (!(fits)) return refuse(other_size)

/* The elements of one rank's part in an array of all parts. */
static int64_t part_of(lockstep_group* group, int64_t all) {
  int ranks = 1;
  if (lockstep_group_size(group, &ranks) != LOCKSTEP_SUCCESS) return all;
  return all % ranks == 0 ? all / ranks : -1;
}

int lockstep_f_all_reduce(lockstep_group* group, CFI_cdesc_t* in, int op, CFI_cdesc_t* out, CFI_cdesc_t* label,
                          lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(from.count == to.count);
  return lockstep_all_reduce(group, from.data, to.data, from.count, from.dtype, op, &call);
}

int lockstep_f_reduce(lockstep_group* group, CFI_cdesc_t* in, int op, int root, CFI_cdesc_t* out, CFI_cdesc_t* label,
                      lockstep_work** work) {
  LOCKSTEP_F_CALL;
  return lockstep_reduce(group, from.data, to.data, from.count, from.dtype, op, root, &call);
}

int lockstep_f_broadcast(lockstep_group* group, CFI_cdesc_t* in, int root, CFI_cdesc_t* label, lockstep_work** work) {
  CFI_cdesc_t* const out = NULL;
  LOCKSTEP_F_CALL;
  return lockstep_broadcast(group, to.data, to.count, to.dtype, root, &call);
}

int lockstep_f_all_gather(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, CFI_cdesc_t* label,
                          lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(part_of(group, to.count) == from.count);
  return lockstep_all_gather(group, from.data, to.data, from.count, from.dtype, &call);
}

int lockstep_f_gather(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, int root, CFI_cdesc_t* label,
                      lockstep_work** work) {
  LOCKSTEP_F_CALL;
  return lockstep_gather(group, from.data, to.data, from.count, from.dtype, root, &call);
}

int lockstep_f_scatter(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, int root, CFI_cdesc_t* label,
                       lockstep_work** work) {
  LOCKSTEP_F_CALL;
  return lockstep_scatter(group, from.data, to.data, to.count, to.dtype, root, &call);
}

int lockstep_f_reduce_scatter(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, int op, CFI_cdesc_t* label,
                              lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(part_of(group, from.count) == to.count);
  return lockstep_reduce_scatter(group, from.data, to.data, to.count, from.dtype, op, &call);
}

int lockstep_f_all_to_all(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, CFI_cdesc_t* label,
                          lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(from.count == to.count && part_of(group, from.count) >= 0);
  return lockstep_all_to_all(group, from.data, to.data, part_of(group, from.count), from.dtype, &call);
}

int lockstep_f_scan(lockstep_group* group, CFI_cdesc_t* in, int op, CFI_cdesc_t* out, CFI_cdesc_t* label,
                    lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(from.count == to.count);
  return lockstep_scan(group, from.data, to.data, from.count, from.dtype, op, &call);
}

int lockstep_f_exclusive_scan(lockstep_group* group, CFI_cdesc_t* in, int op, CFI_cdesc_t* out, CFI_cdesc_t* label,
                              lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(from.count == to.count);
  return lockstep_exclusive_scan(group, from.data, to.data, from.count, from.dtype, op, &call);
}

/* The counts of all ranks have to be as many as there are elements. */
static int fits(lockstep_group* group, const buffer* all, const CFI_cdesc_t* counts) {
  int ranks = 0;
  int64_t sum = 0;
  if (lockstep_group_size(group, &ranks) != LOCKSTEP_SUCCESS || counts->dim[0].extent != ranks) return 0;
  for (int r = 0; r < ranks; ++r) sum += ((const int64_t*)counts->base_addr)[r];
  return sum == all->count;
}

int lockstep_f_all_gather_v(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, CFI_cdesc_t* counts,
                            CFI_cdesc_t* label, lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(fits(group, &to, counts));
  return lockstep_all_gather_v(group, from.data, to.data, counts->base_addr, from.dtype, &call);
}

int lockstep_f_reduce_scatter_v(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* out, CFI_cdesc_t* counts, int op,
                                CFI_cdesc_t* label, lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(fits(group, &from, counts));
  return lockstep_reduce_scatter_v(group, from.data, to.data, counts->base_addr, from.dtype, op, &call);
}

int lockstep_f_all_to_all_v(lockstep_group* group, CFI_cdesc_t* in, CFI_cdesc_t* sent, CFI_cdesc_t* out,
                            CFI_cdesc_t* received, CFI_cdesc_t* label, lockstep_work** work) {
  LOCKSTEP_F_CALL;
  LOCKSTEP_F_REQUIRE(fits(group, &from, sent) && fits(group, &to, received));
  return lockstep_all_to_all_v(group, from.data, sent->base_addr, to.data, received->base_addr, from.dtype, &call);
}

int lockstep_f_send(lockstep_group* group, CFI_cdesc_t* in, int to_rank, CFI_cdesc_t* label, lockstep_work** work) {
  CFI_cdesc_t* const out = NULL;
  LOCKSTEP_F_CALL;
  return lockstep_send(group, to.data, to.count, to.dtype, to_rank, &call);
}

int lockstep_f_recv(lockstep_group* group, CFI_cdesc_t* in, int from_rank, CFI_cdesc_t* label, lockstep_work** work) {
  CFI_cdesc_t* const out = NULL;
  LOCKSTEP_F_CALL;
  return lockstep_recv(group, to.data, to.count, to.dtype, from_rank, &call);
}

static void print(const char* notice, void* context) {
  fprintf(stderr, "lockstep: %s\n", notice);
  (void)context;
}

/* Options of a group as arguments that may be missing. */
static lockstep_group_options options_of(const CFI_cdesc_t* algorithm, const double* deadline, const double* late_after,
                                         text* room) {
  lockstep_group_options options = LOCKSTEP_INIT(lockstep_group_options);
  options.algorithm = text_of(algorithm, room);
  options.deadline = deadline == NULL ? 0 : *deadline;
  options.late_after = late_after == NULL ? 0 : *late_after;
  if (options.late_after > 0) options.notice = print;
  return options;
}

int lockstep_f_group_from_environment(lockstep_group** group, CFI_cdesc_t* algorithm, double* deadline,
                                      double* late_after) {
  text room;
  const lockstep_group_options options = options_of(algorithm, deadline, late_after, &room);
  return lockstep_group_from_environment(&options, group);
}

int lockstep_f_group_from_folder(CFI_cdesc_t* folder, int rank, int size, lockstep_group** group, CFI_cdesc_t* algorithm,
                                 double* deadline, double* late_after) {
  text room;
  text path;
  const lockstep_group_options options = options_of(algorithm, deadline, late_after, &room);
  return lockstep_group_from_folder(text_of(folder, &path), rank, size, &options, group);
}

int lockstep_f_group_from_mpi(int communicator, lockstep_group** group, CFI_cdesc_t* algorithm, double* deadline,
                              double* late_after) {
  text room;
  const lockstep_group_options options = options_of(algorithm, deadline, late_after, &room);
  return lockstep_group_from_mpi(communicator, &options, group);
}

int lockstep_f_group_abort(lockstep_group* group, CFI_cdesc_t* why) {
  text room;
  return lockstep_group_abort(group, text_of(why, &room));
}

/* The parameters of a data-parallel object, one after another, before it is made. */
typedef struct parameter_list {
  lockstep_parameter* parameters;
  int count;
  int dtype;
} parameter_list;

int lockstep_f_parameters_add(parameter_list** list, CFI_cdesc_t* name, CFI_cdesc_t* value, CFI_cdesc_t* gradient) {
  const buffer of_value = buffer_of(value);
  const buffer of_gradient = buffer_of(gradient);
  text room;
  const char* const given = text_of(name, &room);
  if (*list == NULL) {
    *list = calloc(1, sizeof **list);
    if (*list == NULL) return lockstep_set_error(LOCKSTEP_OUT_OF_MEMORY, "no memory is left");
    (*list)->dtype = of_value.dtype;
  }
  parameter_list* const all = *list;
  const char* const wrong = complaint(&of_value, &of_gradient);
  if (wrong != NULL) return refuse(wrong);
  LOCKSTEP_F_REQUIRE(of_value.count == of_gradient.count);
  if (of_value.dtype != all->dtype) return refuse("all parameters have one type, that of the first");
  lockstep_parameter* const longer = realloc(all->parameters, (size_t)(all->count + 1) * sizeof *longer);
  if (longer == NULL) return lockstep_set_error(LOCKSTEP_OUT_OF_MEMORY, "no memory is left");
  all->parameters = longer;
  const lockstep_parameter added = {sizeof added, strdup(given), of_value.data, of_gradient.data, of_value.count};
  longer[all->count++] = added;
  return LOCKSTEP_SUCCESS;
}

int lockstep_f_parallel_create(lockstep_group* group, parameter_list** list, lockstep_parallel** parallel,
                               int check_finite, int allow_unused, int64_t bucket_bytes) {
  lockstep_parallel_options options = LOCKSTEP_INIT(lockstep_parallel_options);
  options.check_finite = check_finite;
  options.allow_unused = allow_unused;
  options.bucket_bytes = bucket_bytes;
  parameter_list none = {NULL, 0, LOCKSTEP_FLOAT32};
  parameter_list* const all = *list == NULL ? &none : *list;
  const int code = lockstep_parallel_create(group, all->dtype, all->parameters, all->count, &options, parallel);
  for (int i = 0; i < all->count; ++i) free((char*)all->parameters[i].name);
  free(all->parameters);
  free(*list);
  *list = NULL;
  return code;
}

int lockstep_f_parallel_ready(lockstep_parallel* parallel, int parameter) {
  return lockstep_parallel_ready(parallel, parameter, NULL);
}

int lockstep_f_parallel_finish(lockstep_parallel* parallel, double weight, CFI_cdesc_t* numbers, double* all_weight) {
  lockstep_step step = LOCKSTEP_INIT(lockstep_step);
  const buffer given = buffer_of(numbers);
  const int count = given.is_contiguous && given.count <= INT_MAX ? (int)given.count : -1;
  const int code = lockstep_parallel_finish(parallel, weight, given.data, count, &step);
  if (code == LOCKSTEP_SUCCESS && all_weight != NULL) *all_weight = step.weight;
  return code;
}

int lockstep_f_checkpoint_create(lockstep_group* group, CFI_cdesc_t* folder, int keep,
                                 lockstep_checkpoint** checkpoint) {
  text room;
  return lockstep_checkpoint_create(group, text_of(folder, &room), keep, checkpoint);
}

/* The extents of files are row-major, and Fortran's first index runs fastest. Scalars of the types of C's and C++'s
 * numbers are numbers. */
int lockstep_f_checkpoint_add(lockstep_checkpoint* checkpoint, CFI_cdesc_t* name, CFI_cdesc_t* tensor, int in_model) {
  int64_t extents[CFI_MAX_RANK];
  text room;
  const buffer given = buffer_of(tensor);
  const char* const wrong = complaint(&given, &given);
  if (wrong != NULL) return refuse(wrong);
  if (tensor->rank == 0 && in_model == 0 && given.dtype == LOCKSTEP_INT64)
    return lockstep_checkpoint_add_int64(checkpoint, text_of(name, &room), given.data);
  if (tensor->rank == 0 && in_model == 0 && given.dtype == LOCKSTEP_FLOAT64)
    return lockstep_checkpoint_add_double(checkpoint, text_of(name, &room), given.data);
  for (int i = 0; i < tensor->rank; ++i) extents[i] = tensor->dim[tensor->rank - 1 - i].extent;
  return lockstep_checkpoint_add_tensor(checkpoint, text_of(name, &room), given.data, given.count, given.dtype, extents,
                                        tensor->rank, in_model);
}

int lockstep_f_checkpoint_restore(lockstep_checkpoint* checkpoint, int64_t* step, CFI_cdesc_t* which) {
  text room;
  return lockstep_checkpoint_restore(checkpoint, text_of(which, &room), step);
}

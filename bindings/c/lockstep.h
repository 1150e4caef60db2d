/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

/* lockstep for C99, and for every language that calls C: groups of ranks, their collective operations, data-parallel
 * training and checkpoints. It needs no mpi.h. Link the library lockstep_c, by CMake's lockstep::c or by pkg-config's
 * lockstep_c; nothing else is needed, and nothing but the names of this header is exported.
 *
 * Every function returns a code, LOCKSTEP_SUCCESS if all went well. After any other code lockstep_last_error() and
 * lockstep_error_details() say what happened, on the thread that called. Results are written through the last pointers
 * of a call, only on success.
 *
 * Handles are used by any thread, one call at a time; calls of several threads on one group wait for each other. All
 * ranks call the same operations of a group in the same order. From the first call that another thread makes on, MPI
 * must have been initialized with MPI_THREAD_SERIALIZED or more, as lockstep_group_from_environment does.
 *
 * Structures begin with their size, which LOCKSTEP_INIT sets, so that later versions can append fields. A field that is
 * zero has its default. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the binary interface, which the library's soname repeats. */
#define LOCKSTEP_ABI_VERSION 0
/* The ABI version of the library that is loaded. */
int lockstep_abi_version(void);
/* The version of lockstep, such as "0.1.0". */
const char* lockstep_version(void);

/* lockstep_call call = LOCKSTEP_INIT(lockstep_call); */
#ifdef __cplusplus
#define LOCKSTEP_INIT(type) \
  { sizeof(type) }
#else
#define LOCKSTEP_INIT(type) \
  { .size = sizeof(type) }
#endif

/* ---- Errors ---- */

enum lockstep_code {
  LOCKSTEP_SUCCESS = 0,
  LOCKSTEP_INVALID_ARGUMENT = 1, /* what was passed can never work */
  LOCKSTEP_UNSUPPORTED = 2,      /* valid, but this build or machine cannot do it */
  LOCKSTEP_TRANSPORT = 3,        /* MPI, NCCL or a socket failed, or another rank has ended */
  LOCKSTEP_TIMEOUT = 4,          /* a rank did not answer within the deadline */
  LOCKSTEP_MISMATCH = 5,         /* ranks disagree about what they are doing together */
  LOCKSTEP_DEVICE = 6,           /* a GPU or its driver failed */
  LOCKSTEP_OUT_OF_MEMORY = 7,    /* the host or a GPU has no memory left */
  LOCKSTEP_IO = 8,               /* a file could not be read or written */
  LOCKSTEP_CORRUPT = 9,          /* a file was read and its contents are wrong */
  LOCKSTEP_DIVERGED = 10,        /* values are not finite */
  LOCKSTEP_INTERNAL = 11         /* anything else */
};
/* "success", "invalid argument", …; "unknown" for another number. */
const char* lockstep_code_name(int code);

/* The message of the last call of this thread that failed, one line; empty if none has. Valid until the next one that
 * fails. */
const char* lockstep_last_error(void);

/* What is known of the last error of this thread. Texts and arrays are valid until the next call that fails. */
typedef struct lockstep_error {
  size_t size;
  int code;
  int rank;             /* the rank that reports; -1: unknown */
  int is_consequence;   /* whether another rank reports the cause */
  int is_on_every_rank; /* whether all ranks have this error from the same call */
  int64_t step;         /* the training step, from 1; 0: none */
  const char* message;
  const char* operation; /* such as "all_reduce"; empty if there is none */
  const char* label;     /* the caller's name of the operation, tensor or bucket */
  const char* host;      /* of the rank that reports */
  const int* peers;      /* the ranks at fault, or waited for */
  int peer_count;
} lockstep_error;
int lockstep_error_details(lockstep_error* error);
/* For bindings of other languages: makes an error of their own the last one of this thread, and returns its code. */
int lockstep_set_error(int code, const char* message);

/* ---- Groups of ranks ---- */

typedef struct lockstep_group lockstep_group;

enum lockstep_device { LOCKSTEP_CPU = 0, LOCKSTEP_CUDA = 1 };

/* How a group communicates: the same on all ranks, except for the notice. */
typedef struct lockstep_group_options {
  size_t size;
  int device;            /* LOCKSTEP_CUDA: buffers in memory of a GPU are reduced by NCCL */
  int progress_thread;   /* not 0: a thread advances operations while the program computes */
  int check;             /* not 0: ranks compare their calls before each operation of MPI or NCCL */
  double deadline;       /* seconds without progress after which an operation fails; 0: 120 */
  const char* algorithm; /* NULL: "auto"; otherwise a name of docs/algorithms.md, or "mpi" */
  const char* tuning;    /* a file that comm-bench --tune has written; NULL: a cost model chooses */
  const char* compress;  /* "bf16" or "fp16": how float32 travels in reductions; NULL: unchanged */
  const char* sockets;   /* NULL: "auto"; otherwise "no" or "yes" */
  /* Receives notices, which are no errors, on the thread that calls, and those of late_after on a thread of lockstep's.
   * NULL: they are dropped. */
  void (*notice)(const char* text, void* context);
  void* notice_context;
  int checksum;    /* not 0: messages between hosts have checksums */
  int connections; /* TCP connections that carry large messages between two ranks of different hosts, to 16; 0: 1 */
  /* More than 0: a thread watches this rank, for lockstep_group_explain and the program lockstep-stacks. While
   * operations wait for other ranks for so many seconds, a notice on one of the ranks says what all ranks do. Groups
   * from the environment share what the first of them says. 0: ranks are not watched, and groups of threads never are. */
  double late_after;
} lockstep_group_options;

/* Makes a group of all ranks that mpirun or srun has started; without a launcher, of this process alone. It initializes
 * MPI unless the program has, and the close of the last such group finalizes MPI then. Under torchrun, and under any
 * launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, it needs no MPI. Collective.
 * options: NULL for the defaults, here and below */
int lockstep_group_from_environment(const lockstep_group_options* options, lockstep_group** group);
/* Makes a group of ranks that can gather bytes in a way of their own: by another library, or a language's runtime. It
 * needs no MPI. Collective.
 * all_gather: collective over the ranks; fills all with bytes bytes of each rank, by rank, and returns 0, or anything
 *             else if it has failed. It is called once, during this call, with the given context */
int lockstep_group_from_exchange(int rank, int size,
                                 int (*all_gather)(void* context, const void* mine, size_t bytes, void* all),
                                 void* context, const lockstep_group_options* options, lockstep_group** group);
/* Makes a group of processes that share a folder, on one host or by a file system of all hosts. It needs no MPI, and
 * what an earlier job has left in the folder does no harm. Collective. */
int lockstep_group_from_folder(const char* folder, int rank, int size, const lockstep_group_options* options,
                               lockstep_group** group);
/* Makes a group of the ranks of an MPI communicator, which stays the program's. Collective over it. Close the group
 * before MPI_Finalize.
 * communicator: MPI_Comm_c2f(comm); in Fortran, the integer handle, or comm%MPI_VAL */
int lockstep_group_from_mpi(int64_t communicator, const lockstep_group_options* options, lockstep_group** group);
/* Makes groups whose ranks are threads of this process, one for each of `ranks` threads, for tests.
 * groups: room for `ranks` handles */
int lockstep_groups_of_threads(int ranks, const lockstep_group_options* options, lockstep_group** groups);
/* Makes a group of the ranks that name the same color, ordered by (key, rank). Collective.
 * color: -1 to join no group; then *part is NULL */
int lockstep_group_split(lockstep_group* group, int color, int key, lockstep_group** part);

int lockstep_group_rank(const lockstep_group* group, int* rank);
int lockstep_group_size(const lockstep_group* group, int* size);
/* The name of this rank's host, valid while the group is. */
int lockstep_group_host(const lockstep_group* group, const char** host);
/* The GPU of this rank, by CUDA's index; -1 without LOCKSTEP_CUDA. */
int lockstep_group_gpu(const lockstep_group* group, int* gpu);
/* Writes what all ranks do, and the stacks of their threads, into text of room bytes, cut where that is too short, and
 * ended by a zero byte: an empty text unless the ranks are watched (late_after). It takes at most 2 s. Any thread may
 * call it at any time before the close. */
int lockstep_group_explain(const lockstep_group* group, char* text, size_t room);
/* Makes the operations of all ranks fail with this reason. Any thread may call it at any time before the close. */
int lockstep_group_abort(lockstep_group* group, const char* why);
/* Ends the group and releases the handle. Collective, unless an operation of the group has failed, which was reported
 * then. Works, prepared operations, memory, data-parallel objects and checkpoints of the group are released before.
 * NULL is allowed, here and in all functions that release a handle. */
int lockstep_group_close(lockstep_group* group);

/* Zeroed memory in which operations are fastest, because the ranks of a node read it directly; with LOCKSTEP_CUDA, of
 * the GPU. It is released by lockstep_free, or with the group. */
int lockstep_allocate(lockstep_group* group, int64_t bytes, void** memory);
int lockstep_free(lockstep_group* group, void* memory);

/* ---- Collective operations ---- */

/* Types of elements. A boolean is a byte, 0 or 1; complex numbers are pairs. */
enum lockstep_dtype {
  LOCKSTEP_FLOAT32 = 0,
  LOCKSTEP_FLOAT64 = 1,
  LOCKSTEP_INT32 = 2,
  LOCKSTEP_INT64 = 3,
  LOCKSTEP_UINT8 = 4,
  LOCKSTEP_FLOAT16 = 5,
  LOCKSTEP_BFLOAT16 = 6,
  LOCKSTEP_INT8 = 7,
  LOCKSTEP_INT16 = 8,
  LOCKSTEP_UINT16 = 9,
  LOCKSTEP_BOOL = 10,
  LOCKSTEP_COMPLEX64 = 11,
  LOCKSTEP_COMPLEX128 = 12
};
/* Operators. An average is the sum divided once by the number of ranks. Logical and bitwise ones are for integers and
 * booleans; complex numbers have sums and averages. */
enum lockstep_op {
  LOCKSTEP_SUM = 0,
  LOCKSTEP_MIN = 1,
  LOCKSTEP_MAX = 2,
  LOCKSTEP_PRODUCT = 3,
  LOCKSTEP_AVERAGE = 4,
  LOCKSTEP_LOGICAL_AND = 5,
  LOCKSTEP_LOGICAL_OR = 6,
  LOCKSTEP_LOGICAL_XOR = 7,
  LOCKSTEP_BIT_AND = 8,
  LOCKSTEP_BIT_OR = 9,
  LOCKSTEP_BIT_XOR = 10
};
enum lockstep_memory { LOCKSTEP_HOST_MEMORY = 0, LOCKSTEP_DEVICE_MEMORY = 1 };

/* An operation that is under way. */
typedef struct lockstep_work lockstep_work;

/* How an operation is called. NULL instead of one: it waits, on host memory. */
typedef struct lockstep_call {
  size_t size;
  const char* label; /* the name of the operation in errors and traces */
  int memory;        /* where the buffers are */
  void* stream;      /* a cudaStream_t whose earlier work the operation follows; NULL: the call's order alone */
  /* Where the handle of the operation goes, which lockstep_wait releases. The caller leaves the buffers alone until
   * then. NULL: the call returns when the operation has ended. */
  lockstep_work** work;
} lockstep_call;

/* Waits until the operation has ended, and releases the handle, also on failure. Other threads use the group
 * meanwhile. */
int lockstep_wait(lockstep_work* work);
/* Advances the operations of this rank without waiting. *done: whether the operation has ended; lockstep_wait then
 * returns at once. */
int lockstep_test(lockstep_work* work, int* done);

/* out[i] = in_0[i] op … op in_{p-1}[i] on every rank. `in` and `out` may be the same memory. */
int lockstep_all_reduce(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                        const lockstep_call* call);
/* The same on the root only; on the other ranks `out` is ignored. */
int lockstep_reduce(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op, int root,
                    const lockstep_call* call);
/* Overwrites the buffer with the root's. */
int lockstep_broadcast(lockstep_group* group, void* buffer, int64_t count, int dtype, int root,
                       const lockstep_call* call);
/* out = in_0 | in_1 | …, `count` elements each. In place: `in` is this rank's part of `out`. */
int lockstep_all_gather(lockstep_group* group, const void* in, void* out, int64_t count, int dtype,
                        const lockstep_call* call);
/* The same with counts[r] elements of rank r. */
int lockstep_all_gather_v(lockstep_group* group, const void* in, void* out, const int64_t* counts, int dtype,
                          const lockstep_call* call);
/* The same as all_gather on the root only. */
int lockstep_gather(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int root,
                    const lockstep_call* call);
/* out = part `rank` of the root's `in`, `count` elements; on the other ranks `in` is ignored. */
int lockstep_scatter(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int root,
                     const lockstep_call* call);
/* out (`count` elements) = part `rank` of the reduction of `in` (p * count elements). In place: `out` is this rank's
 * part of `in`. */
int lockstep_reduce_scatter(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                            const lockstep_call* call);
/* The same with parts of counts[r] elements. */
int lockstep_reduce_scatter_v(lockstep_group* group, const void* in, void* out, const int64_t* counts, int dtype,
                              int op, const lockstep_call* call);
/* Part j of rank i's `in` becomes part i of rank j's `out`; parts have `count` elements. Never in place. */
int lockstep_all_to_all(lockstep_group* group, const void* in, void* out, int64_t count, int dtype,
                        const lockstep_call* call);
/* The same with sent[j] elements to rank j and received[i] from rank i. */
int lockstep_all_to_all_v(lockstep_group* group, const void* in, const int64_t* sent, void* out,
                          const int64_t* received, int dtype, const lockstep_call* call);
/* out[i] on rank r = in_0[i] op … op in_r[i], from left to right. */
int lockstep_scan(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                  const lockstep_call* call);
/* The same without in_r; rank 0 gets the operator's neutral element. */
int lockstep_exclusive_scan(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                            const lockstep_call* call);
/* Ends when every rank has called it. */
int lockstep_barrier(lockstep_group* group, const lockstep_call* call);
/* Messages of two ranks match in the order of their calls. */
int lockstep_send(lockstep_group* group, const void* in, int64_t count, int dtype, int to, const lockstep_call* call);
int lockstep_recv(lockstep_group* group, void* out, int64_t count, int dtype, int from, const lockstep_call* call);

/* An all-reduce whose arguments are checked and whose plan is chosen once, and which is then started any number of
 * times, on what the buffers hold at that time. */
typedef struct lockstep_prepared lockstep_prepared;
/* call: its label and memory count; the buffers stay where they are */
int lockstep_prepare_all_reduce(lockstep_group* group, const void* in, void* out, int64_t count, int dtype, int op,
                                const lockstep_call* call, lockstep_prepared** prepared);
/* Counts as calling the operation. The previous start has been waited for. */
int lockstep_prepared_start(lockstep_prepared* prepared);
int lockstep_prepared_wait(lockstep_prepared* prepared);
int lockstep_prepared_test(lockstep_prepared* prepared, int* done);
int lockstep_prepared_free(lockstep_prepared* prepared);

/* ---- Data-parallel training ---- */

/* Parameters whose gradients are summed over the ranks in buckets while backward runs:
 *   forward; backward, with lockstep_parallel_ready(parallel, i, …) as soon as gradient i is complete;
 *   lockstep_parallel_finish(parallel, weight, …); update with sum / weight. */
typedef struct lockstep_parallel lockstep_parallel;

typedef struct lockstep_parameter {
  size_t size; /* the same in all elements of the array */
  const char* name;
  void* value;
  void* gradient; /* NULL: in memory of the data-parallel object, at lockstep_parallel_gradient, which saves copies */
  int64_t count;  /* elements of each */
} lockstep_parameter;

/* The same on all ranks. */
typedef struct lockstep_parallel_options {
  size_t size;
  int memory;                 /* where values and gradients are */
  int compare_initial_values; /* not 0: ranks compare them; 0: rank 0's are broadcast */
  int check_finite;           /* not 0: lockstep_parallel_finish says which gradients are not finite */
  int allow_unused;           /* not 0: a step may leave parameters without gradient */
  int64_t bucket_bytes;       /* 0: 25 MiB */
  int64_t compare_every;      /* steps after which ranks compare all values; 0: 100; -1: never */
} lockstep_parallel_options;

/* Makes the object and synchronizes the values. Values, gradients and the group outlive it. Collective. */
int lockstep_parallel_create(lockstep_group* group, int dtype, const lockstep_parameter* parameters, int count,
                             const lockstep_parallel_options* options, lockstep_parallel** parallel);
/* Marks a gradient as complete. Any order will do.
 * gradient: where it is, if it has moved; NULL: where it was */
int lockstep_parallel_ready(lockstep_parallel* parallel, int parameter, void* gradient);
/* Advances what is under way; call it now and then during backward. */
int lockstep_parallel_progress(lockstep_parallel* parallel);

/* What a step has found; arrays are valid until the next call for the object. */
typedef struct lockstep_step {
  size_t size;
  double weight;     /* the sum over ranks */
  const int* unused; /* parameters that no rank made ready, ascending */
  int unused_count;
  const int* not_finite; /* parameters of the first rank with gradients that are not finite */
  int not_finite_count;
  int not_finite_rank; /* that rank; -1: none, or only the sums are not finite */
} lockstep_step;
/* Overwrites all gradients with their sums over the ranks. Collective.
 * weight:  of this rank, such as its number of samples; not negative
 * numbers: more numbers to sum, such as a loss; may be NULL
 * step:    may be NULL */
int lockstep_parallel_finish(lockstep_parallel* parallel, double weight, double* numbers, int number_count,
                             lockstep_step* step);
/* on != 0: until the next call with 0, ready and finish communicate nothing; gradients of several backward passes
 * accumulate, with their weights and numbers. */
int lockstep_parallel_no_sync(lockstep_parallel* parallel, int on);
/* Broadcasts rank 0's values again, or compares them. Collective. */
int lockstep_parallel_synchronize(lockstep_parallel* parallel);
/* Where the gradient of a parameter is. */
int lockstep_parallel_gradient(const lockstep_parallel* parallel, int parameter, void** gradient);
/* The number that errors give the next step; the first is 1. */
int lockstep_parallel_number_steps_from(lockstep_parallel* parallel, int64_t next);
/* Seconds that this rank has waited for gradients so far, and the number of buckets. */
int lockstep_parallel_statistics(const lockstep_parallel* parallel, double* waited, int* buckets);
int lockstep_parallel_free(lockstep_parallel* parallel);

/* ---- Checkpoints ---- */

/* Saves and restores tensors and numbers by name, the same on any number of ranks: rank 0's are saved, and all ranks
 * get them. docs/checkpoints.md describes the files. */
typedef struct lockstep_checkpoint lockstep_checkpoint;
/* keep: number of newest checkpoints that stay. Collective. */
int lockstep_checkpoint_create(lockstep_group* group, const char* folder, int keep, lockstep_checkpoint** checkpoint);
/* Adds the values of all parameters, as tensors of the model. */
int lockstep_checkpoint_add_parallel(lockstep_checkpoint* checkpoint, const lockstep_parallel* parallel);
/* Adds a tensor in host memory, which outlives the checkpoint.
 * extents:  `dimensions` of them, row-major; NULL: one dimension
 * in_model: not 0: it is part of the file that other programs load */
int lockstep_checkpoint_add_tensor(lockstep_checkpoint* checkpoint, const char* name, void* data, int64_t count,
                                   int dtype, const int64_t* extents, int dimensions, int in_model);
int lockstep_checkpoint_add_int64(lockstep_checkpoint* checkpoint, const char* name, int64_t* number);
int lockstep_checkpoint_add_double(lockstep_checkpoint* checkpoint, const char* name, double* number);
/* Saves all that was added, and returns when it is on disk. Collective. */
int lockstep_checkpoint_save(lockstep_checkpoint* checkpoint, int64_t step);
/* Restores all that was added, on all ranks. Collective.
 * which: NULL: the newest good checkpoint, if there is one; "last" or a path: that one
 * step:  its step; -1 if there is none */
int lockstep_checkpoint_restore(lockstep_checkpoint* checkpoint, const char* which, int64_t* step);
int lockstep_checkpoint_free(lockstep_checkpoint* checkpoint);

#ifdef __cplusplus
}
#endif

#endif

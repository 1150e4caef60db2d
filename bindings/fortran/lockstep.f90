! SPDX-License-Identifier: Apache-2.0
!> lockstep for Fortran 2018: groups of ranks, collective operations on arrays of any rank and type that lockstep has,
!> data-parallel training, and checkpoints. Every function returns a code, LOCKSTEP_SUCCESS if all went well;
!> lockstep_last_error() then says what happened. lockstep.h, in the prefix's folder include, describes what each function
!> does.
!>
!> Arrays are contiguous: a strided section is refused, because the compiler would pass a copy. Without `out`, an array
!> is overwritten with the result. With `work`, the operation is under way when the function returns: the array then has
!> the attribute asynchronous, or target, until lockstep_wait.
module lockstep
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_f_pointer, c_int, c_int64_t, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  !> Handles, which functions pass to C by value.
  type, bind(c), public :: lockstep_group
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(c), public :: lockstep_work
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(c), public :: lockstep_parameters
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(c), public :: lockstep_parallel
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(c), public :: lockstep_checkpoint
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  enum, bind(c)
    enumerator :: LOCKSTEP_SUCCESS, LOCKSTEP_INVALID_ARGUMENT, LOCKSTEP_UNSUPPORTED, LOCKSTEP_TRANSPORT, &
      LOCKSTEP_TIMEOUT, LOCKSTEP_MISMATCH, LOCKSTEP_DEVICE, LOCKSTEP_OUT_OF_MEMORY, LOCKSTEP_IO, LOCKSTEP_CORRUPT, &
      LOCKSTEP_DIVERGED, LOCKSTEP_INTERNAL
  end enum
  enum, bind(c)
    enumerator :: LOCKSTEP_SUM, LOCKSTEP_MIN, LOCKSTEP_MAX, LOCKSTEP_PRODUCT, LOCKSTEP_AVERAGE, LOCKSTEP_LOGICAL_AND, &
      LOCKSTEP_LOGICAL_OR, LOCKSTEP_LOGICAL_XOR, LOCKSTEP_BIT_AND, LOCKSTEP_BIT_OR, LOCKSTEP_BIT_XOR
  end enum
  public :: LOCKSTEP_SUCCESS, LOCKSTEP_INVALID_ARGUMENT, LOCKSTEP_UNSUPPORTED, LOCKSTEP_TRANSPORT, LOCKSTEP_TIMEOUT, &
    LOCKSTEP_MISMATCH, LOCKSTEP_DEVICE, LOCKSTEP_OUT_OF_MEMORY, LOCKSTEP_IO, LOCKSTEP_CORRUPT, LOCKSTEP_DIVERGED, &
    LOCKSTEP_INTERNAL
  public :: LOCKSTEP_SUM, LOCKSTEP_MIN, LOCKSTEP_MAX, LOCKSTEP_PRODUCT, LOCKSTEP_AVERAGE, LOCKSTEP_LOGICAL_AND, &
    LOCKSTEP_LOGICAL_OR, LOCKSTEP_LOGICAL_XOR, LOCKSTEP_BIT_AND, LOCKSTEP_BIT_OR, LOCKSTEP_BIT_XOR

  public :: lockstep_last_error
  public :: lockstep_group_from_environment, lockstep_group_from_folder, lockstep_group_from_mpi, lockstep_group_split, &
    lockstep_group_rank, lockstep_group_size, lockstep_group_abort, lockstep_group_close
  public :: lockstep_all_reduce, lockstep_reduce, lockstep_broadcast, lockstep_all_gather, lockstep_all_gather_v, &
    lockstep_gather, lockstep_scatter, lockstep_reduce_scatter, lockstep_reduce_scatter_v, lockstep_all_to_all, &
    lockstep_all_to_all_v, lockstep_scan, lockstep_exclusive_scan, lockstep_barrier, lockstep_send, lockstep_recv, &
    lockstep_wait, lockstep_test
  public :: lockstep_parameters_add, lockstep_parallel_create, lockstep_parallel_ready, lockstep_parallel_progress, &
    lockstep_parallel_finish, lockstep_parallel_no_sync, lockstep_parallel_synchronize, lockstep_parallel_free
  public :: lockstep_checkpoint_create, lockstep_checkpoint_add, lockstep_checkpoint_save, lockstep_checkpoint_restore, &
    lockstep_checkpoint_free

  !> The ranks of an MPI communicator: its integer handle. Module lockstep_mpi adds type(MPI_Comm).
  !> @param late_after  here and below: the ranks are watched, and while operations wait for others for so many seconds,
  !>                    standard error of one of the ranks says what all do
  interface lockstep_group_from_mpi
    integer(c_int) function lockstep_group_from_handle(communicator, group, algorithm, deadline, late_after) &
        bind(c, name="lockstep_f_group_from_mpi")
      import
      integer(c_int), value :: communicator
      type(lockstep_group), intent(out) :: group
      character(len=*, kind=c_char), intent(in), optional :: algorithm
      real(c_double), intent(in), optional :: deadline, late_after  !< in seconds
    end function
  end interface

  interface
    integer(c_int) function lockstep_group_from_environment(group, algorithm, deadline, late_after) &
        bind(c, name="lockstep_f_group_from_environment")
      import
      type(lockstep_group), intent(out) :: group
      character(len=*, kind=c_char), intent(in), optional :: algorithm
      real(c_double), intent(in), optional :: deadline, late_after  !< in seconds
    end function
    !> The processes that share a folder, on one host or by a file system of all hosts; without MPI.
    integer(c_int) function lockstep_group_from_folder(folder, rank, size, group, algorithm, deadline, late_after) &
        bind(c, name="lockstep_f_group_from_folder")
      import
      character(len=*, kind=c_char), intent(in) :: folder
      integer(c_int), value :: rank, size  !< ranks are counted from 0
      type(lockstep_group), intent(out) :: group
      character(len=*, kind=c_char), intent(in), optional :: algorithm
      real(c_double), intent(in), optional :: deadline, late_after  !< in seconds
    end function
    !> @param color  -1 to join no group
    integer(c_int) function lockstep_group_split(group, color, key, part) bind(c)
      import
      type(lockstep_group), value :: group
      integer(c_int), value :: color, key
      type(lockstep_group), intent(out) :: part
    end function
    integer(c_int) function lockstep_group_rank(group, rank) bind(c)
      import
      type(lockstep_group), value :: group
      integer(c_int), intent(out) :: rank  !< from 0
    end function
    integer(c_int) function lockstep_group_size(group, size) bind(c)
      import
      type(lockstep_group), value :: group
      integer(c_int), intent(out) :: size
    end function
    integer(c_int) function lockstep_group_abort(group, why) bind(c, name="lockstep_f_group_abort")
      import
      type(lockstep_group), value :: group
      character(len=*, kind=c_char), intent(in) :: why
    end function
    integer(c_int) function lockstep_group_close(group) bind(c)
      import
      type(lockstep_group), value :: group
    end function

    integer(c_int) function lockstep_all_reduce(group, in, op, out, label, work) bind(c, name="lockstep_f_all_reduce")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in
      integer(c_int), value :: op
      type(*), dimension(..), asynchronous, target, optional :: out
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_reduce(group, in, op, root, out, label, work) bind(c, name="lockstep_f_reduce")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in
      integer(c_int), value :: op, root
      type(*), dimension(..), asynchronous, target, optional :: out
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_broadcast(group, buffer, root, label, work) bind(c, name="lockstep_f_broadcast")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: buffer
      integer(c_int), value :: root
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    !> `out` has the elements of `in` of rank 0, then of rank 1, ….
    integer(c_int) function lockstep_all_gather(group, in, out, label, work) bind(c, name="lockstep_f_all_gather")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    !> @param counts  elements of each rank, one after another in `out`
    integer(c_int) function lockstep_all_gather_v(group, in, out, counts, label, work) &
        bind(c, name="lockstep_f_all_gather_v")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      integer(c_int64_t), dimension(:), contiguous, intent(in) :: counts
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_gather(group, in, out, root, label, work) bind(c, name="lockstep_f_gather")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      integer(c_int), value :: root
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_scatter(group, in, out, root, label, work) bind(c, name="lockstep_f_scatter")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      integer(c_int), value :: root
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_reduce_scatter(group, in, out, op, label, work) &
        bind(c, name="lockstep_f_reduce_scatter")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      integer(c_int), value :: op
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_reduce_scatter_v(group, in, out, counts, op, label, work) &
        bind(c, name="lockstep_f_reduce_scatter_v")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      integer(c_int64_t), dimension(:), contiguous, intent(in) :: counts
      integer(c_int), value :: op
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_all_to_all(group, in, out, label, work) bind(c, name="lockstep_f_all_to_all")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_all_to_all_v(group, in, sent, out, received, label, work) &
        bind(c, name="lockstep_f_all_to_all_v")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in, out
      integer(c_int64_t), dimension(:), contiguous, intent(in) :: sent, received
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_scan(group, in, op, out, label, work) bind(c, name="lockstep_f_scan")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in
      integer(c_int), value :: op
      type(*), dimension(..), asynchronous, target, optional :: out
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_exclusive_scan(group, in, op, out, label, work) &
        bind(c, name="lockstep_f_exclusive_scan")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: in
      integer(c_int), value :: op
      type(*), dimension(..), asynchronous, target, optional :: out
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_send(group, buffer, to, label, work) bind(c, name="lockstep_f_send")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: buffer
      integer(c_int), value :: to
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_recv(group, buffer, from, label, work) bind(c, name="lockstep_f_recv")
      import
      type(lockstep_group), value :: group
      type(*), dimension(..), asynchronous, target :: buffer
      integer(c_int), value :: from
      character(len=*, kind=c_char), intent(in), optional :: label
      type(lockstep_work), intent(out), optional :: work
    end function
    integer(c_int) function lockstep_wait(work) bind(c)
      import
      type(lockstep_work), value :: work
    end function
    integer(c_int) function lockstep_test(work, done) bind(c)
      import
      type(lockstep_work), value :: work
      integer(c_int), intent(out) :: done  !< not 0: lockstep_wait returns at once
    end function

    !> Adds a parameter to a list, from which lockstep_parallel_create makes the object. All have one type.
    integer(c_int) function lockstep_parameters_add(parameters, name, value, gradient) &
        bind(c, name="lockstep_f_parameters_add")
      import
      type(lockstep_parameters), intent(inout) :: parameters
      character(len=*, kind=c_char), intent(in) :: name
      type(*), dimension(..), asynchronous, target :: value, gradient
    end function
    integer(c_int) function lockstep_parallel_create_with(group, parameters, parallel, check_finite, allow_unused, &
        bucket_bytes) bind(c, name="lockstep_f_parallel_create")
      import
      type(lockstep_group), value :: group
      type(lockstep_parameters), intent(inout) :: parameters
      type(lockstep_parallel), intent(out) :: parallel
      integer(c_int), value :: check_finite, allow_unused
      integer(c_int64_t), value :: bucket_bytes
    end function
    integer(c_int) function lockstep_parallel_ready_c(parallel, parameter) bind(c, name="lockstep_f_parallel_ready")
      import
      type(lockstep_parallel), value :: parallel
      integer(c_int), value :: parameter
    end function
    integer(c_int) function lockstep_parallel_progress(parallel) bind(c)
      import
      type(lockstep_parallel), value :: parallel
    end function
    !> @param numbers     more numbers to sum over the ranks, such as a loss
    !> @param all_weight  the sum of the weights
    integer(c_int) function lockstep_parallel_finish(parallel, weight, numbers, all_weight) &
        bind(c, name="lockstep_f_parallel_finish")
      import
      type(lockstep_parallel), value :: parallel
      real(c_double), value :: weight
      real(c_double), dimension(..), intent(inout), optional :: numbers
      real(c_double), intent(out), optional :: all_weight
    end function
    integer(c_int) function lockstep_parallel_no_sync(parallel, on) bind(c)
      import
      type(lockstep_parallel), value :: parallel
      integer(c_int), value :: on
    end function
    integer(c_int) function lockstep_parallel_synchronize(parallel) bind(c)
      import
      type(lockstep_parallel), value :: parallel
    end function
    integer(c_int) function lockstep_parallel_free(parallel) bind(c)
      import
      type(lockstep_parallel), value :: parallel
    end function

    integer(c_int) function lockstep_checkpoint_create(group, folder, keep, checkpoint) &
        bind(c, name="lockstep_f_checkpoint_create")
      import
      type(lockstep_group), value :: group
      character(len=*, kind=c_char), intent(in) :: folder
      integer(c_int), value :: keep
      type(lockstep_checkpoint), intent(out) :: checkpoint
    end function
    integer(c_int) function lockstep_checkpoint_add_with(checkpoint, name, tensor, in_model) &
        bind(c, name="lockstep_f_checkpoint_add")
      import
      type(lockstep_checkpoint), value :: checkpoint
      character(len=*, kind=c_char), intent(in) :: name
      type(*), dimension(..), asynchronous, target :: tensor
      integer(c_int), value :: in_model
    end function
    integer(c_int) function lockstep_checkpoint_save(checkpoint, step) bind(c)
      import
      type(lockstep_checkpoint), value :: checkpoint
      integer(c_int64_t), value :: step
    end function
    !> @param step   of the checkpoint; -1 if there is none
    !> @param which  "last" or a path; without it the newest good one
    integer(c_int) function lockstep_checkpoint_restore(checkpoint, step, which) &
        bind(c, name="lockstep_f_checkpoint_restore")
      import
      type(lockstep_checkpoint), value :: checkpoint
      integer(c_int64_t), intent(out) :: step
      character(len=*, kind=c_char), intent(in), optional :: which
    end function
    integer(c_int) function lockstep_checkpoint_free(checkpoint) bind(c)
      import
      type(lockstep_checkpoint), value :: checkpoint
    end function

    integer(c_int) function barrier_c(group, call) bind(c, name="lockstep_barrier")
      import
      type(lockstep_group), value :: group
      type(c_ptr), value :: call
    end function
    type(c_ptr) function last_error_c() bind(c, name="lockstep_last_error")
      import
    end function
    integer(c_size_t) function length_of(text) bind(c, name="strlen")
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  !> The message of the last function of this thread that failed; empty if none has.
  function lockstep_last_error() result(text)
    character(len=:, kind=c_char), allocatable :: text
    character(len=1, kind=c_char), dimension(:), pointer :: characters
    type(c_ptr) :: from
    integer :: i, length
    from = last_error_c()
    length = int(length_of(from))
    call c_f_pointer(from, characters, [length])
    allocate (character(len=length, kind=c_char) :: text)
    do i = 1, length
      text(i:i) = characters(i)
    end do
  end function

  integer(c_int) function lockstep_barrier(group) result(code)
    type(lockstep_group), intent(in) :: group
    code = barrier_c(group, c_null_ptr)
  end function

  !> Makes a data-parallel object of the parameters, whose arrays have the attribute asynchronous or target, and empties
  !> the list. Collective.
  integer(c_int) function lockstep_parallel_create(group, parameters, parallel, check_finite, allow_unused, &
      bucket_bytes) result(code)
    type(lockstep_group), intent(in) :: group
    type(lockstep_parameters), intent(inout) :: parameters
    type(lockstep_parallel), intent(out) :: parallel
    logical, intent(in), optional :: check_finite, allow_unused
    integer(c_int64_t), intent(in), optional :: bucket_bytes
    integer(c_int64_t) :: bytes
    bytes = 0
    if (present(bucket_bytes)) bytes = bucket_bytes
    code = lockstep_parallel_create_with(group, parameters, parallel, number(check_finite), number(allow_unused), bytes)
  end function

  !> Marks the gradient of a parameter as complete. @param parameter  in the order in which they were added, from 1
  integer(c_int) function lockstep_parallel_ready(parallel, parameter) result(code)
    type(lockstep_parallel), intent(in) :: parallel
    integer, intent(in) :: parameter
    code = lockstep_parallel_ready_c(parallel, int(parameter - 1, c_int))
  end function

  !> Adds an array, or a number: a scalar int64 or real64 is a number in programs in C and C++ too, other scalars are
  !> arrays without extents there. The extents of an array (2, 3) are (3, 2) in files and in other languages.
  !> @param in_model  whether it is part of the file that other programs load
  integer(c_int) function lockstep_checkpoint_add(checkpoint, name, tensor, in_model) result(code)
    type(lockstep_checkpoint), intent(in) :: checkpoint
    character(len=*, kind=c_char), intent(in) :: name
    type(*), dimension(..), asynchronous, target :: tensor
    logical, intent(in), optional :: in_model
    code = lockstep_checkpoint_add_with(checkpoint, name, tensor, number(in_model))
  end function

  pure integer(c_int) function number(flag)
    logical, intent(in), optional :: flag
    number = 0
    if (present(flag)) number = merge(1_c_int, 0_c_int, flag)
  end function

end module lockstep

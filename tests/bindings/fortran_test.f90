! SPDX-License-Identifier: Apache-2.0
! What module lockstep promises, on any number of ranks.
program fortran_test
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, int32, int64, real32, real64
  use mpi_f08
  use lockstep
  use lockstep_mpi
  implicit none
  type(lockstep_group) :: group, part
  integer :: rank, ranks, failures, provided
  character(len=256) :: folder

  failures = 0
  call get_command_argument(1, folder)
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  call good(lockstep_group_from_mpi(MPI_COMM_WORLD, group, deadline=60.0_real64, late_after=30.0_real64), __LINE__)
  call good(lockstep_group_rank(group, rank), __LINE__)
  call good(lockstep_group_size(group, ranks), __LINE__)
  call check_collectives()
  call check_refusals()
  call check_works()
  call check_parallel()
  call check_checkpoints()
  call good(lockstep_group_from_mpi(MPI_COMM_WORLD%MPI_VAL, part, algorithm="ring"), __LINE__)
  call good(lockstep_group_close(part), __LINE__)
  call good(lockstep_group_from_folder(trim(folder) // "/store", rank, ranks, part), __LINE__)
  call good(lockstep_barrier(part), __LINE__)
  call good(lockstep_group_close(part), __LINE__)
  call good(lockstep_all_reduce(group, failures, LOCKSTEP_SUM), __LINE__)
  call good(lockstep_group_close(group), __LINE__)
  call MPI_Finalize()
  if (failures > 0) error stop 1

contains

  subroutine check(is_good, line)
    logical, intent(in) :: is_good
    integer, intent(in) :: line
    if (is_good) return
    failures = failures + 1
    write (error_unit, '(a,i0,a,i0)') 'fortran_test.f90:', line, ': not true, on rank ', rank
  end subroutine

  subroutine good(code, line)
    integer, intent(in) :: code, line
    if (code == LOCKSTEP_SUCCESS) return
    failures = failures + 1
    write (error_unit, '(a,i0,3a,i0)') 'fortran_test.f90:', line, ': ', lockstep_last_error(), ', on rank ', rank
  end subroutine

  subroutine check_collectives()
    real(real64), asynchronous :: grid(3, 4), sums(3, 4)
    real(real32), asynchronous :: one, all(64)
    integer(int64), asynchronous :: numbers(2)
    integer(int8), asynchronous :: bits
    integer(int32), asynchronous :: parts(64), own(2)
    complex(real64), asynchronous :: pair
    integer(int64) :: counts(ranks)
    integer :: r
    grid = real(rank + 1, real64)
    call good(lockstep_all_reduce(group, grid, LOCKSTEP_SUM, out=sums, label="grid"), __LINE__)
    call check(all_equal(sums, ranks * (ranks + 1) / 2.0_real64) .and. all_equal(grid, rank + 1.0_real64), __LINE__)
    call good(lockstep_all_reduce(group, grid, LOCKSTEP_MAX), __LINE__)
    call check(all_equal(grid, real(ranks, real64)), __LINE__)
    numbers = [int(rank, int64), -7_int64]
    call good(lockstep_broadcast(group, numbers, ranks - 1), __LINE__)
    call check(numbers(1) == ranks - 1, __LINE__)
    one = real(rank, real32)
    call good(lockstep_all_gather(group, one, all(1:ranks)), __LINE__)
    do r = 1, ranks
      call check(int(all(r)) == r - 1, __LINE__)
    end do
    call good(lockstep_gather(group, one, all(1:ranks), 0), __LINE__)
    call good(lockstep_scatter(group, all(1:ranks), one, 0), __LINE__)
    call check(int(one) == rank, __LINE__)
    own = [rank, rank + 10]
    counts = 1
    counts(1) = 2
    call good(lockstep_all_gather_v(group, own(1:int(counts(rank + 1))), parts(1:ranks + 1), counts), __LINE__)
    call check(parts(2) == 10 .and. parts(ranks + 1) == merge(10, ranks - 1, ranks == 1), __LINE__)
    parts(1:ranks) = rank
    call good(lockstep_reduce_scatter(group, parts(1:ranks), own(1), LOCKSTEP_SUM), __LINE__)
    call check(own(1) == ranks * (ranks - 1) / 2, __LINE__)
    own(1) = rank + 1
    call good(lockstep_scan(group, own(1), LOCKSTEP_SUM, out=own(2)), __LINE__)
    call check(own(2) == (rank + 1) * (rank + 2) / 2, __LINE__)
    call good(lockstep_exclusive_scan(group, own(1), LOCKSTEP_SUM), __LINE__)
    call check(own(1) == rank * (rank + 1) / 2, __LINE__)
    bits = int(ibset(0, rank), int8)
    call good(lockstep_all_reduce(group, bits, LOCKSTEP_BIT_OR), __LINE__)
    call check(bits == int(2**ranks - 1, int8), __LINE__)
    pair = (1.0_real64, -2.0_real64)
    call good(lockstep_all_reduce(group, pair, LOCKSTEP_AVERAGE), __LINE__)
    call check(abs(pair - (1.0_real64, -2.0_real64)) < 1e-12_real64, __LINE__)
    call good(lockstep_barrier(group), __LINE__)
  end subroutine

  pure logical function all_equal(values, expected)
    real(real64), intent(in) :: values(:, :), expected
    all_equal = .not. any(abs(values - expected) > 0)
  end function

  subroutine check_refusals()
    real(real64), asynchronous :: grid(4, 4), other(5)
    logical, asynchronous :: flag
    grid = 1
    call check(lockstep_all_reduce(group, grid(1:4:2, :), LOCKSTEP_SUM) == LOCKSTEP_INVALID_ARGUMENT, __LINE__)
    call check(index(lockstep_last_error(), 'strided section') > 0, __LINE__)
    call check(lockstep_all_reduce(group, grid, LOCKSTEP_SUM, out=other) == LOCKSTEP_INVALID_ARGUMENT, __LINE__)
    call check(index(lockstep_last_error(), 'numbers of elements') > 0, __LINE__)
    call check(lockstep_all_reduce(group, grid, 99) == LOCKSTEP_INVALID_ARGUMENT, __LINE__)
    call check(index(lockstep_last_error(), '99') > 0, __LINE__)
    call check(lockstep_broadcast(group, flag, 0) == LOCKSTEP_INVALID_ARGUMENT, __LINE__)
    call check(index(lockstep_last_error(), 'of this type') > 0, __LINE__)
    call good(lockstep_all_reduce(group, grid(:, 2:3), LOCKSTEP_SUM), __LINE__)  ! columns are contiguous
    call check(nint(grid(1, 2)) == ranks .and. nint(grid(1, 1)) == 1, __LINE__)
    call good(lockstep_group_split(group, merge(-1, 0, rank > 0), 0, part), __LINE__)
    if (rank == 0) call good(lockstep_group_close(part), __LINE__)
  end subroutine

  subroutine check_works()
    real(real64), asynchronous :: values(1000, 2)
    integer, asynchronous :: sent, received
    type(lockstep_work) :: works(2)
    integer :: done
    values = rank
    call good(lockstep_all_reduce(group, values, LOCKSTEP_SUM, work=works(1)), __LINE__)
    sent = rank
    call good(lockstep_recv(group, received, modulo(rank - 1, ranks), work=works(2)), __LINE__)
    call good(lockstep_send(group, sent, modulo(rank + 1, ranks)), __LINE__)
    done = 0
    do while (done == 0)
      call good(lockstep_test(works(1), done), __LINE__)
    end do
    call good(lockstep_wait(works(1)), __LINE__)
    call good(lockstep_wait(works(2)), __LINE__)
    call check(received == modulo(rank - 1, ranks), __LINE__)
    call check(nint(values(1000, 2)) == ranks * (ranks - 1) / 2, __LINE__)
  end subroutine

  subroutine check_parallel()
    real(real32), target :: weights(3, 2), bias(2), gradients(3, 2), of_bias(2)
    real(real64) :: loss(1), all_weight
    type(lockstep_parameters) :: parameters
    type(lockstep_parallel) :: parallel
    weights = real(rank, real32)
    bias = 1
    call good(lockstep_parameters_add(parameters, "weights", weights, gradients), __LINE__)
    call good(lockstep_parameters_add(parameters, "bias", bias, of_bias), __LINE__)
    call check(lockstep_parameters_add(parameters, "loss", loss, loss) == LOCKSTEP_INVALID_ARGUMENT, __LINE__)
    call check(index(lockstep_last_error(), 'one type') > 0, __LINE__)
    call good(lockstep_parallel_create(group, parameters, parallel, check_finite=.true.), __LINE__)
    call check(nint(weights(3, 2)) == 0, __LINE__)
    gradients = 1
    of_bias = real(rank + 1, real32)
    loss = rank
    call good(lockstep_parallel_ready(parallel, 2), __LINE__)
    call good(lockstep_parallel_progress(parallel), __LINE__)
    call good(lockstep_parallel_ready(parallel, 1), __LINE__)
    call good(lockstep_parallel_finish(parallel, 2.0_real64, loss, all_weight), __LINE__)
    call check(nint(all_weight) == 2 * ranks .and. nint(loss(1)) == ranks * (ranks - 1) / 2, __LINE__)
    call check(nint(gradients(1, 1)) == ranks .and. nint(of_bias(2)) == ranks * (ranks + 1) / 2, __LINE__)
    call check(lockstep_parallel_ready(parallel, 3) == LOCKSTEP_INVALID_ARGUMENT, __LINE__)
    call good(lockstep_parallel_synchronize(parallel), __LINE__)
    call good(lockstep_parallel_free(parallel), __LINE__)
  end subroutine

  subroutine check_checkpoints()
    interface  ! C's function for numbers
      integer(c_int) function add_int64(checkpoint, name, number) bind(c, name="lockstep_checkpoint_add_int64")
        import
        type(lockstep_checkpoint), value :: checkpoint
        character(kind=c_char), intent(in) :: name(*)
        integer(int64), intent(inout), target :: number
      end function
    end interface
    real(real64), asynchronous :: state(2, 3), rate
    integer, asynchronous :: epoch
    integer(int64), asynchronous, target :: samples, samples_in_c
    integer(int64) :: step
    type(lockstep_checkpoint) :: checkpoint
    state = reshape([1, 2, 3, 4, 5, 6], [2, 3])
    epoch = 4
    samples = 3000000000_int64
    rate = 0.25_real64
    call good(lockstep_checkpoint_create(group, trim(folder), 3, checkpoint), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "state", state, in_model=.true.), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "epoch", epoch), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "samples", samples), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "rate", rate), __LINE__)
    call good(lockstep_checkpoint_restore(checkpoint, step), __LINE__)
    call check(step == -1, __LINE__)
    call good(lockstep_checkpoint_save(checkpoint, 5_int64), __LINE__)
    state = 0
    epoch = 0
    samples = 0
    rate = 0
    call good(lockstep_checkpoint_restore(checkpoint, step, which="last"), __LINE__)
    call check(step == 5 .and. epoch == 4 .and. nint(state(2, 3)) == 6, __LINE__)
    call check(samples == 3000000000_int64 .and. nint(4 * rate) == 1, __LINE__)
    call good(lockstep_checkpoint_free(checkpoint), __LINE__)
    ! A program in C reads the number.
    call good(lockstep_checkpoint_create(group, trim(folder), 3, checkpoint), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "state", state, in_model=.true.), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "epoch", epoch), __LINE__)
    call good(lockstep_checkpoint_add(checkpoint, "rate", rate), __LINE__)
    samples_in_c = 0
    call good(add_int64(checkpoint, "samples" // c_null_char, samples_in_c), __LINE__)
    call good(lockstep_checkpoint_restore(checkpoint, step, which="last"), __LINE__)
    call check(samples_in_c == 3000000000_int64, __LINE__)
    call good(lockstep_checkpoint_free(checkpoint), __LINE__)
  end subroutine

end program fortran_test

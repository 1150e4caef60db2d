! SPDX-License-Identifier: Apache-2.0
!> A heat equation on the solver's own communicator, and beside it, on a communicator of the lower half of the ranks, a
!> model that learns how the solver's mean cools, while it runs:
!>   mpirun -np 4 ./fortran_solver
program solver
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use mpi_f08
  use lockstep
  use lockstep_mpi
  implicit none
  integer, parameter :: cells = 200, steps = 300
  type(MPI_Comm) :: solvers, trainers
  type(lockstep_group) :: group
  type(lockstep_parameters) :: parameters
  type(lockstep_parallel) :: parallel
  real(real64) :: heat(0:cells + 1), mean, before, weight
  real(real32), target :: rate(1), gradient(1)
  integer :: rank, solver_rank, solver_ranks, step, left, right, provided
  logical :: trains

  call MPI_Init_thread(MPI_THREAD_SERIALIZED, provided)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_dup(MPI_COMM_WORLD, solvers)
  call MPI_Comm_rank(solvers, solver_rank)
  call MPI_Comm_size(solvers, solver_ranks)
  left = merge(solver_rank - 1, MPI_PROC_NULL, solver_rank > 0)
  right = merge(solver_rank + 1, MPI_PROC_NULL, solver_rank < solver_ranks - 1)

  rate = 0
  trains = 2 * rank < solver_ranks
  call MPI_Comm_split(MPI_COMM_WORLD, merge(0, MPI_UNDEFINED, trains), rank, trainers)
  if (trains) then
    call require(lockstep_group_from_mpi(trainers, group))
    call require(lockstep_parameters_add(parameters, "rate", rate, gradient))
    call require(lockstep_parallel_create(group, parameters, parallel))
  end if
  heat = 0
  heat(1:cells) = 1
  before = 1
  do step = 1, steps
    call advance()
    mean = sum(heat(1:cells)) / cells
    call MPI_Allreduce(MPI_IN_PLACE, mean, 1, MPI_DOUBLE_PRECISION, MPI_SUM, solvers)
    mean = mean / solver_ranks
    if (trains) then
      ! The model: the mean shrinks by rate * before. Each rank has the same sample here; any samples will do.
      gradient(1) = real(2 * (rate(1) * before - (before - mean)) * before, real32)
      call require(lockstep_parallel_ready(parallel, 1))
      call require(lockstep_parallel_finish(parallel, 1.0_real64, all_weight=weight))
      rate = rate - 0.2_real32 * gradient / real(weight, real32)
    end if
    before = mean
  end do
  if (rank == 0) print '(a,f8.5,a,f8.5)', 'mean ', mean, ', learned rate ', rate(1)
  if (.not. mean < 1) error stop 1
  if (trains) then
    if (.not. (rate(1) > 0 .and. rate(1) < 0.01)) error stop 1
    call require(lockstep_parallel_free(parallel))
    call require(lockstep_group_close(group))
    call MPI_Comm_free(trainers)
  end if
  call MPI_Comm_free(solvers)
  call MPI_Finalize()

contains

  !> One step of explicit diffusion; the ends are cold.
  subroutine advance()
    real(real64) :: old(0:cells + 1)
    call MPI_Sendrecv(heat(1), 1, MPI_DOUBLE_PRECISION, left, 0, heat(cells + 1), 1, MPI_DOUBLE_PRECISION, right, 0, &
      solvers, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(heat(cells), 1, MPI_DOUBLE_PRECISION, right, 0, heat(0), 1, MPI_DOUBLE_PRECISION, left, 0, &
      solvers, MPI_STATUS_IGNORE)
    if (left == MPI_PROC_NULL) heat(0) = 0
    if (right == MPI_PROC_NULL) heat(cells + 1) = 0
    old = heat
    heat(1:cells) = old(1:cells) + 0.4_real64 * (old(0:cells - 1) - 2 * old(1:cells) + old(2:cells + 1))
  end subroutine

  subroutine require(code)
    integer, intent(in) :: code
    if (code == LOCKSTEP_SUCCESS) return
    print '(2a)', 'fortran_solver: ', lockstep_last_error()
    error stop 1
  end subroutine

end program solver

! SPDX-License-Identifier: Apache-2.0
!> Ranks that any launcher has started: torchrun --no-python --nproc-per-node 3 fortran_mean, or mpirun -np 3 ./fortran_mean
!> Each rank adds its share of the numbers from 1 to 1000, and an all-reduce brings the sum of all.
program mean
  use, intrinsic :: iso_fortran_env, only: real64
  use lockstep
  implicit none
  type(lockstep_group) :: group
  real(real64) :: sum_and_count(2)
  integer :: rank, ranks, i

  call require(lockstep_group_from_environment(group))
  call require(lockstep_group_rank(group, rank))
  call require(lockstep_group_size(group, ranks))
  sum_and_count = 0
  do i = 1 + rank, 1000, ranks
    sum_and_count = sum_and_count + [real(i, real64), 1.0_real64]
  end do
  call require(lockstep_all_reduce(group, sum_and_count, LOCKSTEP_SUM))
  print '(a,i0,a,f0.1)', 'rank ', rank, ': mean = ', sum_and_count(1) / sum_and_count(2)
  if (abs(sum_and_count(1) / sum_and_count(2) - 500.5_real64) > 1e-9_real64) error stop 1
  call require(lockstep_group_close(group))

contains

  subroutine require(code)
    integer, intent(in) :: code
    if (code == LOCKSTEP_SUCCESS) return
    print '(2a)', 'fortran_mean: ', lockstep_last_error()
    error stop 1
  end subroutine

end program mean

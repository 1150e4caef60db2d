! SPDX-License-Identifier: Apache-2.0
!> Lets lockstep_group_from_mpi take a communicator of module mpi_f08.
module lockstep_mpi
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int
  use lockstep, only: lockstep_group, lockstep_group_from_mpi
  use mpi_f08, only: MPI_Comm
  implicit none
  private
  public :: lockstep_group_from_mpi

  interface lockstep_group_from_mpi
    module procedure from_communicator
  end interface

contains

  integer(c_int) function from_communicator(communicator, group, algorithm, deadline, late_after) result(code)
    type(MPI_Comm), intent(in) :: communicator
    type(lockstep_group), intent(out) :: group
    character(len=*, kind=c_char), intent(in), optional :: algorithm
    real(c_double), intent(in), optional :: deadline, late_after  !< in seconds
    character(len=:, kind=c_char), allocatable :: name
    real(c_double) :: seconds, late
    name = "auto"  ! gfortran 12 cannot pass on a text that may be missing
    if (present(algorithm)) name = algorithm
    seconds = 0  ! the default
    if (present(deadline)) seconds = deadline
    late = 0
    if (present(late_after)) late = late_after
    code = lockstep_group_from_mpi(communicator%MPI_VAL, group, name, seconds, late)
  end function

end module lockstep_mpi

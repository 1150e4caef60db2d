// SPDX-License-Identifier: Apache-2.0
// The functions of the extension module that lockstep_torch/__init__.py calls.
#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"
#include "ranks.hpp"
#include "service.hpp"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace py = pybind11;
  using lockstep::bindings::Backend;
  py::module_::import("torch._C._distributed_c10d");  // has the type that is returned
  module.def(
      "make_backend",
      [](const std::vector<int>& ranks, int tag, double timeout, bool is_watched) -> c10::intrusive_ptr<c10d::Backend> {
        const std::chrono::duration<double> deadline(timeout);
        return c10::make_intrusive<Backend>(lockstep::bindings::make_group(ranks, tag, deadline, is_watched),
                                            std::chrono::duration_cast<std::chrono::milliseconds>(deadline));
      },
      py::arg("ranks"), py::arg("tag"), py::arg("timeout"), py::arg("is_watched"),
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "make_backend_from_store",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, double timeout,
         bool is_watched) -> c10::intrusive_ptr<c10d::Backend> {
        const std::chrono::duration<double> deadline(timeout);
        return c10::make_intrusive<Backend>(
            lockstep::bindings::make_group_from_store(store, rank, size, deadline, deadline, is_watched),
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline));
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("is_watched"),
      py::call_guard<py::gil_scoped_release>());
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  module.def(
      "make_backend_to_reconfigure",
      [](const std::string& host, int rank, int size, double timeout,
         bool is_watched) -> c10::intrusive_ptr<c10d::Backend> {
        const std::chrono::duration<double> deadline(timeout);
        return c10::make_intrusive<Backend>(
            host, rank, size, std::chrono::duration_cast<std::chrono::milliseconds>(deadline), is_watched);
      },
      py::arg("host"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("is_watched"),
      py::call_guard<py::gil_scoped_release>());
#endif
  module.def(
      "abort",
      [](const c10::intrusive_ptr<c10d::Backend>& backend, const std::string& why) {
        static_cast<Backend&>(*backend).abort_with(why);
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "close",
      [](const c10::intrusive_ptr<c10d::Backend>& backend) { static_cast<Backend&>(*backend).shutdown_with_parts(); },
      py::call_guard<py::gil_scoped_release>());
  module.def("allocations", [](const c10::intrusive_ptr<c10d::Backend>& backend) {
    return static_cast<const Backend&>(*backend).allocations();
  });
  module.def(
      "wait_until_idle", [] { lockstep::bindings::Service::instance().wait_until_idle(); },
      py::call_guard<py::gil_scoped_release>());
  module.def("has_mpi", &lockstep::bindings::has_mpi);
  module.def("job_rank", [] {
    const lockstep::bindings::JobRank job = lockstep::bindings::job_rank();
    return std::pair(job.rank, job.size);
  });
  module.def("broadcast_text", &lockstep::bindings::broadcast_text, py::call_guard<py::gil_scoped_release>());
  module.def("finalize", &lockstep::bindings::finalize, py::call_guard<py::gil_scoped_release>());
}

// SPDX-License-Identifier: Apache-2.0
#include "apps/common/version.hpp"

#include "apps/common/build_info.hpp"
#include "lockstep/base/version.hpp"
#include "platform/mpi/versions.hpp"

namespace lockstep {
namespace {

std::string line(const std::string& library, const std::string& version) { return library + ' ' + version + '\n'; }

}  // namespace

std::string commit() { return build::commit; }

std::string version_text(std::string_view app) {
  std::string text = std::string(app) + " (lockstep " + std::string(version()) + "), commit " + commit() + '\n';
  text += line("compiler", std::string(build::compiler) + ", " + build::build_type);
  text += line("MPI", mpi_library_version());
  text += line("hwloc", build::hwloc_version);
  text += line("Boost", build::boost_version);
  text += line("OpenSSL", build::openssl_version);
  text += line("oneDNN", build::onednn_version);
  text += line("zlib", build::zlib_version);
  const std::string missing = build::cuda_missing;
  text += line("CUDA", missing.empty() ? build::cuda_version : "not built in: " + missing);
  if (missing.empty()) text += line("NCCL", std::string(build::nccl_version) + " (header; loaded at run time)");
  return text;
}

}  // namespace lockstep

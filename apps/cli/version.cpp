// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/version.hpp"

#include "lockstep/base/version.hpp"
#include "platform/mpi/blocking_call.hpp"

namespace lockstep::cli {
std::string commit() { return build::commit; }

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> versions = {
      {"compiler", std::string(build::compiler) + ", " + build::build_type},
      {"MPI", mpi_library_version()},
      {"hwloc", build::hwloc_version},
      {"Boost", build::boost_version},
      {"OpenSSL", build::openssl_version},
      {"oneDNN", build::onednn_version},
      {"zlib", build::zlib_version}};
  const std::string missing = build::cuda_missing;
  versions.emplace_back("CUDA", missing.empty() ? build::cuda_version : "not built in: " + missing);
  if (missing.empty())
    versions.emplace_back("NCCL", std::string(build::nccl_version) + " (header; loaded at run time)");
  return versions;
}

std::string version_text(std::string_view app) {
  std::string text = std::string(app) + " (lockstep " + std::string(version()) + "), commit " + commit() + '\n';
  for (const auto& [library, version] : library_versions()) text += library + ' ' + version + '\n';
  return text;
}

}  // namespace lockstep::cli

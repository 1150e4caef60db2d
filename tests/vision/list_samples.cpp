// SPDX-License-Identifier: Apache-2.0
// list_samples DATA [FORMAT]: prints the survey, and then for each sample of each part, in their order, its part,
// label, size and path with tabs between them; the label "classes" stands before the names of the classes.
#include <cstdio>
#include <exception>

#include "vision/formats/sources.hpp"

namespace {

using lockstep::vision::Source;

void print_samples(const char* part, const Source& source) {
  for (const std::string& name : source.class_names()) std::printf("%s\tclasses\t0\t%s\n", part, name.c_str());
  for (std::int64_t i = 0; i < source.size(); ++i)
    std::printf("%s\t%d\t%lld\t%s\n", part, source.annotation(i).label, static_cast<long long>(source.stored_bytes(i)),
                source.place(i).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    const auto sources = lockstep::vision::open_sources({.data = argv[1], .format = argc > 2 ? argv[2] : ""});
    std::fputs(text_of(sources.survey).c_str(), stderr);
    if (sources.train) print_samples("train", *sources.train);
    if (sources.val) print_samples("val", *sources.val);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// Copies a file of tensors: state_copy FROM TO. It reads FROM and writes a new file TO with the same tensors and
// metadata.
#include <exception>
#include <iostream>
#include <vector>

#include "state/safetensors_file.hpp"

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 3) return 2;
  try {
    const state::SafetensorsReader reader(argv[1]);
    const auto header = state::SafetensorsHeader::of(reader.header().tensors(), reader.header().metadata());
    state::SafetensorsWriter::create(argv[2], header);
    const state::SafetensorsWriter writer(argv[2], header);
    for (const state::StoredTensor& tensor : header.tensors()) {
      const Allocation memory = allocate_host(tensor.bytes());
      const Buffer elements(memory.data(), tensor.count(), tensor.dtype);
      reader.read(reader.index_of(tensor.name), {0}, elements);
      (void)writer.write(header.index_of(tensor.name), {0}, elements);
    }
    writer.sync();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}

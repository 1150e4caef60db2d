// SPDX-License-Identifier: Apache-2.0
// Shows the bytes of pictures to mpi-scripts/parity/pictures.sh, and measures how fast they are made. Each line of the
// input is a command: a file, and then what is done to it.
//   PATH [channels N] [side N] [indices] [crop LEFT TOP WIDTH HEIGHT] [resize WIDTH HEIGHT] [flip]
//        [brightness F] [contrast F] [saturation F] [hue F]
// For each line it writes "WIDTH HEIGHT CHANNELS" and a newline before the bytes, or a line that begins with "error".
//   --seconds S COMMAND…   carries out the commands in turn for S seconds, each one an argument, and writes how many it
//   did
//                          in a second
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "vision/codec/codec.hpp"
#include "vision/image/color.hpp"
#include "vision/image/flip.hpp"
#include "vision/image/resize.hpp"

namespace {

using namespace lockstep::vision;

struct Command {
  std::vector<std::byte> file;
  DecodeOptions options;
  std::string changes;
};

Command parse(const std::string& line) {
  std::istringstream words(line);
  std::string path;
  words >> path;
  Command command;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  for (const char byte : bytes) command.file.push_back(static_cast<std::byte>(byte));
  for (std::string word; words >> word;) {
    if (word == "channels") {
      words >> command.options.channels;
    } else if (word == "side") {
      words >> command.options.least_side;
    } else if (word == "indices") {
      command.options.palette_indices = true;
    } else {
      command.changes += word + " ";
    }
  }
  return command;
}

void change(const std::string& changes, Image& picture, Image& other) {
  std::istringstream words(changes);
  Region region{0, 0, picture.width, picture.height};
  for (std::string word; words >> word;) {
    float factor = 0;
    double turn = 0;
    int width = 0;
    int height = 0;
    if (word == "crop") words >> region.left >> region.top >> region.width >> region.height;
    if (word == "flip") flip(picture);
    if (word == "hue" && words >> turn) adjust_hue(picture, turn);
    if (word == "brightness" && words >> factor) adjust_brightness(picture, factor);
    if (word == "contrast" && words >> factor) adjust_contrast(picture, factor);
    if (word == "saturation" && words >> factor) adjust_saturation(picture, factor);
    if (word == "resize" && words >> width >> height) {
      resize(picture, region, width, height, other);
      std::swap(picture, other);
    }
  }
}

void answer(const std::string& line) {
  Image picture;
  Image other;
  try {
    const Command command = parse(line);
    decode(command.file, command.options, picture);
    change(command.changes, picture, other);
  } catch (const lockstep::Error& error) {
    std::cout << "error " << name(error.code()) << ": " << error.message() << std::endl;
    return;
  }
  std::cout << picture.width << " " << picture.height << " " << picture.channels << "\n";
  std::cout.write(reinterpret_cast<const char*>(picture.pixels.data()),
                  static_cast<std::streamsize>(picture.pixels.size()));
  std::cout.flush();
}

/// Carries out the commands in turn, without reading files or parsing in between.
void measure(double seconds, std::span<char*> lines) {
  std::vector<Command> commands;
  for (const char* line : lines) commands.push_back(parse(line));
  Image picture;
  Image other;
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> passed{};
  std::size_t times = 0;
  for (; passed.count() < seconds; ++times) {
    const Command& command = commands[times % commands.size()];
    decode(command.file, command.options, picture);
    change(command.changes, picture, other);
    passed = std::chrono::steady_clock::now() - begin;
  }
  std::cout << static_cast<double>(times) / passed.count() << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 3 && std::string(arguments[1]) == "--seconds") {
    measure(std::stod(arguments[2]), {arguments + 3, arguments + count});
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) answer(line);
}

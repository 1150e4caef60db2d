// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/handles.hpp"
#include "bindings/c/ranks.hpp"

namespace lockstep::bindings {
namespace {

std::function<void(std::string_view)> notice_of(const lockstep_group_options& options) {
  if (options.notice == nullptr) return nullptr;
  return [call = options.notice, context = options.notice_context](std::string_view text) {
    call(std::string(text).c_str(), context);
  };
}

GroupOptions options_of(const lockstep_group_options* given) {
  const lockstep_group_options known = read(given, "lockstep_group_options");
  GroupOptions options;
  if (known.device != LOCKSTEP_CPU && known.device != LOCKSTEP_CUDA)
    refuse("the device is the number " + std::to_string(known.device) + ", which is no lockstep_device");
  options.device = known.device == LOCKSTEP_CUDA ? Device::cuda : Device::cpu;
  options.progress_thread = known.progress_thread != 0;
  options.check = known.check != 0;
  if (known.deadline != 0) options.deadline = std::chrono::duration<double>(known.deadline);
  options.algorithm = text_of(known.algorithm, "auto");
  options.tuning = text_of(known.tuning);
  if (known.compress != nullptr) options.compress = backends::parse_compression(known.compress);
  options.sockets = text_of(known.sockets, "auto");
  options.notice = notice_of(known);
  options.checksum = known.checksum != 0;
  if (known.connections != 0) options.connections = known.connections;
  return options;
}

/// Lets a set be watched if the options say so. Collective.
void watch(const RankSet& ranks, const lockstep_group_options* given) {
  const lockstep_group_options known = read(given, "lockstep_group_options");
  if (known.late_after == 0) return;
  ranks.watch({.on_late = notice_of(known), .late_after = std::chrono::duration<double>(known.late_after)});
}

/// Closes a group, and with the last one of the environment also that. Where that throws, the group is destroyed during
/// stack unwinding, so that no later call throws the same error.
void close(GroupState& state) {
  struct Destroyed {
    GroupState& state;
    ~Destroyed() {
      state.memory.clear();
      state.group.reset();
    }
  };
  {
    const Destroyed destroyed{state};
    state.memory.clear();
    state.group->close();
  }
  if (state.environment != nullptr && state.environment.use_count() == 1) state.environment->close();
}

std::unique_ptr<lockstep_group> handle_of(std::shared_ptr<GroupState> state) {
  return std::unique_ptr<lockstep_group>(new lockstep_group{std::move(state)});
}

std::unique_ptr<lockstep_group> handle_of(ProcessGroup group, std::shared_ptr<Environment> environment = nullptr) {
  auto state = std::make_shared<GroupState>();
  state->environment = std::move(environment);
  state->group.emplace(std::move(group));
  return handle_of(std::move(state));
}

}  // namespace
}  // namespace lockstep::bindings

using namespace lockstep;
using namespace lockstep::bindings;

int lockstep_group_from_environment(const lockstep_group_options* options, lockstep_group** group) {
  return guarded(nullptr, [&] {
    require(group, "group");
    const GroupOptions wanted = options_of(options);
    const auto is_new = [options](const RankSet& ranks) { watch(ranks, options); };
    const std::shared_ptr<Environment> environment = environment_of_this_process(wanted, is_new);
    *group = handle_of(environment->make_group(wanted), environment).release();
  });
}

int lockstep_group_from_exchange(int rank, int size,
                                 int (*all_gather)(void* context, const void* mine, size_t bytes, void* all),
                                 void* context, const lockstep_group_options* options, lockstep_group** group) {
  return guarded(nullptr, [&] {
    require(group, "group");
    if (all_gather == nullptr) refuse("all_gather is a null pointer");
    GroupOptions wanted = options_of(options);
    const auto gather = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
      const int code = all_gather(context, mine.data(), mine.size(), all.data());
      if (code != 0) throw Error(ErrorCode::transport, "the program's all_gather returned " + std::to_string(code));
    };
    RankSet ranks = from_exchange({rank}, size, gather, wanted.deadline);
    watch(ranks, options);
    *group = handle_of(ProcessGroup(std::move(ranks), std::move(wanted))).release();
  });
}

int lockstep_group_from_folder(const char* folder, int rank, int size, const lockstep_group_options* options,
                               lockstep_group** group) {
  return guarded(nullptr, [&] {
    require(folder, "folder");
    require(group, "group");
    GroupOptions wanted = options_of(options);
    RankSet ranks = from_store(make_file_store(folder), {.rank = {rank}, .size = size}, wanted.deadline);
    watch(ranks, options);
    *group = handle_of(ProcessGroup(std::move(ranks), std::move(wanted))).release();
  });
}

int lockstep_group_from_mpi(int64_t communicator, const lockstep_group_options* options, lockstep_group** group) {
  return guarded(nullptr, [&] {
    require(group, "group");
    GroupOptions wanted = options_of(options);
    RankSet ranks = ranks_of_communicator(communicator, wanted.deadline);
    watch(ranks, options);
    *group = handle_of(ProcessGroup(std::move(ranks), std::move(wanted))).release();
  });
}

int lockstep_groups_of_threads(int ranks, const lockstep_group_options* options, lockstep_group** groups) {
  return guarded(nullptr, [&] {
    require(groups, "groups");
    std::vector<std::unique_ptr<lockstep_group>> handles;
    for (ProcessGroup& group : ProcessGroup::of_threads(ranks, options_of(options)))
      handles.push_back(handle_of(std::move(group)));
    std::transform(handles.begin(), handles.end(), groups, [](auto& handle) { return handle.release(); });
  });
}

int lockstep_group_split(lockstep_group* group, int color, int key, lockstep_group** part) {
  return guarded(group == nullptr ? nullptr : group->state.get(), [&] {
    require(group, "group");
    require(part, "part");
    if (color < -1) refuse("the color is " + std::to_string(color) + "; it is -1, for none, or more");
    const auto turn = group->state->group->take_turn();
    auto made = group->state->group->split(color == -1 ? std::nullopt : std::optional(color), key);
    *part = made ? handle_of(std::move(*made), group->state->environment).release() : nullptr;
  });
}

int lockstep_group_rank(const lockstep_group* group, int* rank) {
  return guarded(nullptr, [&] {
    require(group, "group");
    require(rank, "rank");
    *rank = group->state->group->rank().value;
  });
}

int lockstep_group_size(const lockstep_group* group, int* size) {
  return guarded(nullptr, [&] {
    require(group, "group");
    require(size, "size");
    *size = group->state->group->size();
  });
}

int lockstep_group_host(const lockstep_group* group, const char** host) {
  return guarded(nullptr, [&] {
    require(group, "group");
    require(host, "host");
    *host = group->state->group->host().c_str();
  });
}

int lockstep_group_gpu(const lockstep_group* group, int* gpu) {
  return guarded(nullptr, [&] {
    require(group, "group");
    require(gpu, "gpu");
    *gpu = group->state->group->gpu().value_or(-1);
  });
}

int lockstep_group_explain(const lockstep_group* group, char* text, size_t room) {
  return guarded(nullptr, [&] {
    require(group, "group");
    require(text, "text");
    if (room == 0) refuse("room is 0, but the text ends with a zero byte");
    const std::string all = group->state->group->explain_ranks().substr(0, room - 1);
    std::copy(all.begin(), all.end(), text);
    text[all.size()] = '\0';
  });
}

int lockstep_group_abort(lockstep_group* group, const char* why) {
  return guarded(nullptr, [&] {
    require(group, "group");
    group->state->has_failed = true;
    group->state->group->abort(text_of(why));
  });
}

int lockstep_group_close(lockstep_group* group) {
  return guarded(nullptr, [&] {
    if (group == nullptr) return;
    if (group->state.use_count() > 1)
      refuse(
          "a work, a prepared operation, a data-parallel object or a checkpoint of the group is still there: release "
          "it first");
    const std::unique_ptr<lockstep_group> handle(group);
    try {
      close(*handle->state);
    } catch (const Error&) {
      if (!handle->state->has_failed) throw;  // what had failed was reported then
    }
  });
}

int lockstep_allocate(lockstep_group* group, int64_t bytes, void** memory) {
  return guarded(nullptr, [&] {
    require(group, "group");
    require(memory, "memory");
    const auto turn = group->state->group->take_turn();
    Allocation made = group->state->group->allocate({bytes});
    void* const data = made.data();
    group->state->memory[data] = std::move(made);
    *memory = data;
  });
}

int lockstep_free(lockstep_group* group, void* memory) {
  return guarded(nullptr, [&] {
    if (memory == nullptr) return;
    require(group, "group");
    const auto turn = group->state->group->take_turn();
    if (group->state->memory.erase(memory) == 0)
      refuse("the memory is not of lockstep_allocate of this group, or has been released");
  });
}

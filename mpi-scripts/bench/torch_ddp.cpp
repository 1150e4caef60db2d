// SPDX-License-Identifier: Apache-2.0
// lockstep/torch.hpp on two ranks, as torch-ddp.sh starts it:
//   torch_ddp train MODEL FOLDER   50 steps on the batches in FOLDER; writes weights there
//   torch_ddp speed MODEL          prints steps per second
//   torch_ddp cases                what a program may do to it; prints a line for each case
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <lockstep/lockstep.hpp>
#include <lockstep/torch.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace torch::nn;
using lockstep::Error;
using lockstep::ProcessGroup;
using lockstep::torch::DistributedDataParallel;
using lockstep::torch::DistributedOptions;

Sequential make_model(const std::string& name) {
  if (name == "mlp") {  // 5.8 million parameters
    return Sequential(Flatten(), Linear(784, 2048), ReLU(), Linear(2048, 2048), ReLU(), Linear(2048, 10));
  }
  return Sequential(Conv2d(1, 8, 3), BatchNorm2d(8), ReLU(), MaxPool2d(2), Conv2d(8, 16, 3), BatchNorm2d(16), ReLU(),
                    MaxPool2d(2), Flatten(), Linear(400, 10));
}

torch::optim::SGD make_optimizer(const Sequential& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9).weight_decay(1e-4));
}

torch::Tensor read(std::ifstream& in, torch::Tensor into) {
  in.read(static_cast<char*>(into.data_ptr()), static_cast<std::streamsize>(into.nbytes()));
  if (!in) throw std::runtime_error("a file of the folder is too short");
  return into;
}

void write_state(std::ofstream& out, const Sequential& net) {
  const auto write = [&](const torch::Tensor& tensor) {
    if (tensor.scalar_type() == torch::kFloat)
      out.write(static_cast<const char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  };
  for (const auto& tensor : net->parameters()) write(tensor);
  for (const auto& tensor : net->buffers()) write(tensor);
}

/// Only rank 0 has the initial weights, from the folder.
int train(ProcessGroup& group, const std::string& name, const std::string& folder) {
  constexpr int steps = 50, share = 32;
  Sequential net = make_model(name);
  const int rank = group.rank().value;
  if (rank == 0) {
    torch::NoGradGuard no_grad;
    std::ifstream initial(folder + "/" + name + ".initial", std::ios::binary);
    for (auto& tensor : net->parameters()) read(initial, tensor);
  }
  DistributedDataParallel model(group, net, {.bucket = {1 << 20}, .compare_every = 10});
  auto optimizer = make_optimizer(net);
  std::ifstream batches(folder + "/batches." + std::to_string(rank), std::ios::binary);
  std::ofstream out(folder + "/" + name + ".lockstep." + std::to_string(rank), std::ios::binary);
  for (int step = 1; step <= steps; ++step) {
    const auto images = read(batches, torch::empty({share, 1, 28, 28}));
    const auto labels = read(batches, torch::empty({share}, torch::kLong));
    optimizer.zero_grad();
    functional::cross_entropy(model.forward(images), labels).backward();
    model.finish();
    optimizer.step();
    if (step % 10 == 0) write_state(out, net);
  }
  return 0;
}

/// Steps per second of each of ten windows, of which the first does not count.
int speed(ProcessGroup& group, const std::string& name) {
  const int window = name == "mlp" ? 5 : 100;
  Sequential net = make_model(name);
  DistributedDataParallel model(group, net);
  auto optimizer = make_optimizer(net);
  torch::manual_seed(group.rank().value + 1);
  const auto images = torch::randn({16, 32, 1, 28, 28});
  const auto labels = torch::randint(10, {16, 32});
  std::vector<double> rates;
  for (int w = 0; w < 10; ++w) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < window; ++i) {
      optimizer.zero_grad();
      functional::cross_entropy(model.forward(images[i % 16]), labels[i % 16]).backward();
      model.finish();
      optimizer.step();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (w > 0) rates.push_back(window / seconds.count());
  }
  std::sort(rates.begin(), rates.end());
  if (group.rank().value == 0) std::printf("%.3f\n", rates[rates.size() / 2]);
  return 0;
}

struct LayersImpl : Module {
  LayersImpl() {
    first = register_module("first", Linear(3, 2));
    second = register_module("second", Linear(2, 1));
    norm = register_module("norm", BatchNorm1d(3));
    scale = register_parameter("scale", torch::ones({}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second->forward(first->forward(norm->forward(x * scale))); }
  Linear first{nullptr}, second{nullptr};
  BatchNorm1d norm{nullptr};
  torch::Tensor scale;  // of no dimension
};
TORCH_MODULE(Layers);

/// What hostile programs do, on two ranks.
class Cases {
 public:
  explicit Cases(ProcessGroup& group) : group_(group) {}

  int run();

 private:
  [[nodiscard]] std::filesystem::path scratch_folder() const;
  template <typename Optimizer, typename Options>
  void resume(const Options& options);
  void expect(bool holds, const std::string& what) {
    if (holds) return;
    failed_ = true;
    std::printf("rank %d: %s: %s\n", rank(), name_.c_str(), what.c_str());
  }
  void check(const std::string& name, const std::function<void()>& body) {
    name_ = name;
    try {
      body();
    } catch (const std::exception& error) {
      expect(false, std::string("it threw ") + error.what());
    }
    double failures = failed_ ? 1 : 0;
    group_.communicator().all_reduce(std::span(&failures, 1), std::span(&failures, 1), lockstep::ReduceOp::sum).wait();
    if (rank() == 0) std::printf("%s  %s\n", failures == 0 ? "ok    " : "FAILED", name.c_str());
    bad_ += failures == 0 ? 0 : 1;
    failed_ = false;
  }
  [[nodiscard]] int rank() const { return group_.rank().value; }

  /// A row of this rank's of a step.
  [[nodiscard]] torch::Tensor input(int step, int rank) const { return torch::full({1, 4}, 1.0 + rank + 10 * step); }
  [[nodiscard]] torch::Tensor input(int step) const { return input(step, rank()); }
  /// The gradient of the weight of a Linear(4, 1) by the sum of its outputs is the input.
  void expect_gradient(const Linear& net, const torch::Tensor& expected) {
    expect(net->weight.grad().defined() && net->weight.grad().equal(expected), "the gradient is wrong");
  }
  [[nodiscard]] torch::Tensor mean(int step) const { return (input(step, 0) + input(step, 1)) / 2; }
  std::string message_of(const std::function<void()>& call, bool on_every_rank = false) {
    try {
      call();
    } catch (const Error& error) {
      if (on_every_rank) expect(error.is_on_every_rank(), "the error is not on every rank");
      return error.what();
    }
    return "nothing was thrown";
  }
  void expect_message(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) expect(text.find(part) != std::string::npos, text + " — without: " + part);
  }

  void gradients();
  void accumulation();
  void shares();
  void unused();
  void divergence();
  void memory();
  void checkpoints();
  void modules();

  ProcessGroup& group_;
  std::string name_;
  bool failed_ = false;
  int bad_ = 0;
};

void Cases::gradients() {
  for (const bool to_none : {true, false}) {
    check(std::string("zero_grad(") + (to_none ? "set_to_none), libtorch's default" : "false)"), [&] {
      Linear net(LinearOptions(4, 1).bias(false));
      DistributedDataParallel model(group_, net);
      const void* memory = nullptr;
      for (int step = 0; step < 3; ++step) {
        net->zero_grad(to_none);
        model.forward(input(step)).sum().backward();
        model.finish();
        expect_gradient(net, mean(step));
        if (step > 0) expect(net->weight.grad().data_ptr() == memory, "it is not where gradients are reduced");
        memory = net->weight.grad().data_ptr();
      }
    });
  }
  check("a gradient that the program replaces, before backward and by a hook", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net);
    net->weight.register_hook([](const torch::Tensor& gradient) { return gradient * 2; });
    for (int step = 0; step < 2; ++step) {
      net->weight.mutable_grad() = torch::ones({1, 4});
      model.forward(input(step)).sum().backward();
      model.finish();
      expect_gradient(net, 1 + 2 * mean(step));
    }
  });
  check("backward() and finish() on threads of the program's own", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      std::thread([&] { model.forward(input(step)).sum().backward(); }).join();
      std::thread([&] { model.finish(); }).join();
      expect_gradient(net, mean(step));
    }
  });
  check("backward() twice without finish()", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net);
    model.forward(input(0)).sum().backward();
    const std::string text = message_of([&] { model.forward(input(1)).sum().backward(); });
    expect_message(text, {"'weight' came twice in one step", "finish() after each backward()", "rank "});
    model.finish();
  });
  check("the loss of one model that goes through another, as a GAN's generator has it", [&] {
    Linear judge(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, judge);
    for (int step = 0; step < 3; ++step) {
      judge->zero_grad();
      model.forward(input(step)).sum().backward();
      model.finish();
      expect_gradient(judge, mean(step));
      const auto scope = model.no_sync();
      model.forward(input(step)).sum().backward();
    }
  });
}

void Cases::accumulation() {
  check("no_sync(bool) over four backwards, one of them of an unused parameter", [&] {
    Linear net(LinearOptions(4, 1));
    DistributedDataParallel model(group_, net);
    for (int round = 0; round < 2; ++round) {
      net->zero_grad();
      for (int step = 0; step < 4; ++step) {
        const auto guard = model.no_sync(step % 4 != 3);
        if (step == 1) net->weight.mutable_grad() = net->weight.grad().clone();  // replaced meanwhile
        // The last comes to the weight alone.
        (step < 3 ? model.forward(input(step)) : input(step).matmul(net->weight.t())).sum().backward();
        if (step > 1) model.finish();  // may be left out before the last
      }
      expect_gradient(net, mean(0) + mean(1) + mean(2) + mean(3));
      expect(net->bias.grad().equal(torch::full({1}, 3.0)), "the bias's gradient is not 3");
    }
  });
  check("no_sync() with weights: the mean over all samples", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net);
    net->zero_grad();
    double loss = 0;
    for (int step = 0; step < 2; ++step) {
      const auto guard = model.no_sync(step == 0);
      model.forward(input(step)).sum().backward();
      loss = 1;
      const auto result = model.finish(2, std::span(&loss, 1));
      expect(result.weight == (step == 0 ? 2 : 8), "the weights do not add up");
    }
    expect(loss == 4, "the numbers do not add up");
    expect_gradient(net, (mean(0) + mean(1)) / 4);  // sums of 4 inputs, divided by 8
  });
}

void Cases::shares() {
  check("uneven batches, and a rank without samples", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net);
    for (int step = 0; step < 3; ++step) {
      const int samples = rank() == 0 ? step : 3;  // rank 0 has none in the first
      net->zero_grad();
      if (samples > 0) model.forward(input(step).expand({samples, 4})).sum().backward();
      model.finish(samples);
      const auto expected = (step * input(step, 0) + 3 * input(step, 1)) / (step + 3);
      expect(net->weight.grad().allclose(expected, 1e-6), "it is not the mean over all samples");
    }
  });
}

void Cases::unused() {
  check("a parameter that no rank uses", [&] {
    Layers net;
    DistributedDataParallel model(group_, net);
    net->first->forward(torch::ones({2, 3})).sum().backward();
    const std::string text = message_of([&] { model.finish(); }, true);
    expect_message(
        text, {"no rank made the gradient of 'scale', 'second.weight', 'second.bias', 'norm.weight', 'norm.bias' ready",
               "allow_unused"});
    expect(net->first->weight.grad().defined(), "the others have no gradient");
  });
  check("a parameter that one rank does not use", [&] {
    Layers net;
    DistributedDataParallel model(group_, net);
    const auto out = model.forward(torch::ones({2, 3}));
    const auto loss = rank() == 0 ? out.sum() : net->second->forward(torch::ones({2, 2})).sum();
    loss.backward();
    expect_message(message_of([&] { model.finish(); }, true), {"rank 1 on", "left out the gradient of 'scale'"});
  });
  check("the same where it is allowed, and one that one rank uses", [&] {
    Layers net;
    DistributedDataParallel model(group_, net, {.allow_unused = true});
    const auto hidden = net->first->forward(torch::ones({2, 3}));
    (rank() == 0 ? hidden.sum() : net->second->forward(hidden).sum()).backward();
    model.finish();
    expect(!net->norm->weight.grad().defined(), "an unused parameter has a gradient");
    expect(net->second->bias.grad().defined() && net->second->bias.grad().equal(torch::full({1}, 1.0)),
           "that of one rank is not the mean on both");
  });
}

void Cases::divergence() {
  check("a rank that drifts apart, in the second step", [&] {
    Layers net;
    DistributedDataParallel model(group_, net);
    const auto step = [&] {
      net->zero_grad();
      model.forward(torch::randn({4, 3})).sum().backward();
      model.finish();
    };
    step();
    torch::NoGradGuard no_grad;
    if (rank() == 1) net->second->weight.add_(1e-6);
    torch::AutoGradMode grad(true);
    expect_message(message_of(step, true), {"'second.weight' is the first tensor that differs, on rank 1", "step 2"});
  });
  check("one that drifts apart later, and options that differ", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net, {.compare_every = 50});
    torch::optim::SGD optimizer(net->parameters(), 0.1 + (rank() == 1 ? 1e-3 : 0));
    std::string text;
    int steps = 0;
    for (; steps < 10 && text.find("drifted") == std::string::npos; ++steps) {
      optimizer.zero_grad();
      model.forward(input(steps)).sum().backward();
      text = message_of([&] { model.finish(); });
      if (steps >= 2) optimizer.step();
    }
    expect(steps == 4, "it was found after " + std::to_string(steps) + " steps");
    expect_message(text, {"'weight' is the first tensor that differs, on rank 1 from rank 0", "step 4"});
  });
}

std::filesystem::path Cases::scratch_folder() const {
  return std::filesystem::temp_directory_path() /
         ("lockstep-torch-" + std::to_string(group_.broadcast(static_cast<std::int64_t>(getpid()))));
}

/// A run that is resumed after three of six steps ends with the same bits.
template <typename Optimizer, typename Options>
void Cases::resume(const Options& options) {
  const auto folder = scratch_folder();
  const auto run = [&](int steps, bool resumes) {
    Linear net(LinearOptions(4, 3));
    DistributedDataParallel model(group_, net);
    Optimizer optimizer(net->parameters(), options);
    lockstep::Checkpoint checkpoint(group_, folder);
    model.add_to(checkpoint);
    model.add_to(checkpoint, optimizer);
    torch::NoGradGuard no_grad;
    for (const auto& parameter : net->parameters()) parameter.fill_(0.5);
    torch::AutoGradMode grad(true);
    std::int64_t step = resumes ? checkpoint.restore().value_or(0) : 0;
    expect(step == (resumes ? 3 : 0), "it was not restored");
    for (; step < steps; ++step) {
      optimizer.zero_grad();
      model.forward(input(static_cast<int>(step))).square().sum().backward();
      model.finish();
      optimizer.step();
      auto& rate = static_cast<Options&>(optimizer.param_groups()[0].options());
      rate.lr(rate.lr() * 0.5);
    }
    if (!resumes && steps == 3) checkpoint.save(step);
    return torch::cat({net->weight.detach().flatten(), net->bias.detach()});
  };
  const auto whole = run(6, false);
  (void)run(3, false);
  expect(run(6, true).equal(whole), "a resumed run ends with other weights");
  if (rank() == 0) std::filesystem::remove_all(folder);
  (void)group_.sum(0);
}

void Cases::memory() {
  check("a checkpoint that is loaded into the module gives parameters other memory", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    DistributedDataParallel model(group_, net, {.compare_every = 1});
    for (int step = 0; step < 3; ++step) {
      net->weight.set_data(torch::full({1, 4}, step == 2 && rank() == 1 ? 7.5 : 7.0));  // as torch::load does
      net->zero_grad();
      model.forward(input(step)).sum().backward();
      const std::string text = message_of([&] { model.finish(); });
      expect((text.find("on rank 1") != std::string::npos) == (step == 2), "in step " + std::to_string(step) + text);
      expect(net->weight[0][0].item<float>() == (step == 2 && rank() == 1 ? 7.5F : 7.0F), "the weight is another");
    }
  });
  check("a checkpoint brings the state of optimizers back", [&] {
    resume<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true));
    resume<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01));
    resume<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9));
    resume<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).momentum(0.9).centered(true));
    resume<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01));
  });
  check("a checkpoint brings parameters and buffers back", [&] {
    const auto folder = scratch_folder();
    std::vector<torch::Tensor> before;
    {
      Sequential net = make_model("cnn");
      for (const torch::Tensor& parameter : net->parameters()) parameter.detach().fill_(0.5);
      for (const torch::Tensor& buffer : net->buffers()) buffer.fill_(3);
      DistributedDataParallel model(group_, net);
      lockstep::Checkpoint checkpoint(group_, folder);
      model.add_to(checkpoint);
      checkpoint.save(7);
      for (const auto& tensors : {net->parameters(), net->buffers()})
        for (const torch::Tensor& tensor : tensors) before.push_back(tensor.detach().clone());
    }
    Sequential net = make_model("cnn");
    DistributedDataParallel model(group_, net);
    lockstep::Checkpoint checkpoint(group_, folder);
    model.add_to(checkpoint);
    expect(checkpoint.restore() == 7, "the step is another");
    std::size_t compared = 0;
    for (const auto& tensors : {net->parameters(), net->buffers()})
      for (const torch::Tensor& tensor : tensors) expect(tensor.equal(before.at(compared++)), "a tensor is another");
    expect(compared == 16, std::to_string(compared) + " tensors were compared");
    if (rank() == 0) std::filesystem::remove_all(folder);
    Conv2d other(Conv2dOptions(2, 3, 1));
    other->weight.set_data(
        other->weight.detach().contiguous(torch::MemoryFormat::ChannelsLast).as_strided({3, 2, 1, 1}, {1, 3, 3, 3}));
    DistributedDataParallel strided(group_, other);
    expect_message(message_of([&] { strided.add_to(checkpoint); }), {"'weight' is not row-major"});
  });
  check("gradients outlive the model", [&] {
    Linear net(LinearOptions(4, 1).bias(false));
    {
      DistributedDataParallel model(group_, net);
      model.forward(input(0)).sum().backward();
      model.finish();
    }
    expect_gradient(net, mean(0));
    net->zero_grad();
    net->forward(input(1)).sum().backward();  // of this rank alone
    expect_gradient(net, input(1));
  });
  check("channels-last parameters, and a parameter under two names", [&] {
    Sequential net(Conv2d(Conv2dOptions(2, 3, 3)), Conv2d(Conv2dOptions(3, 2, 3)));
    for (auto& parameter : net->parameters())
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    net->push_back("again", std::dynamic_pointer_cast<Conv2dImpl>(net->ptr(0)));
    DistributedDataParallel model(group_, net);
    const auto images = torch::randn({2, 2, 9, 9}).contiguous(torch::MemoryFormat::ChannelsLast);
    model.forward(images).pow(2).sum().backward();
    const auto own = net->ptr<Conv2dImpl>(0)->weight;
    model.finish();
    auto of_all = own.grad().clone();
    auto* data = static_cast<float*>(of_all.data_ptr());
    const std::span<float> elements(data, static_cast<std::size_t>(of_all.numel()));
    group_.communicator().all_reduce(elements, elements, lockstep::ReduceOp::sum).wait();
    expect(own.grad().is_contiguous(torch::MemoryFormat::ChannelsLast), "the gradient has another memory format");
    expect(of_all.equal(2 * own.grad()), "the gradients are not the same on both ranks");
  });
}

void Cases::checkpoints() {
  check("types that neither gradients nor checkpoints have", [&] {
    Linear complex(LinearOptions(2, 2).bias(false));
    complex->weight.set_data(torch::ones({2, 2}, torch::kComplexFloat));
    expect_message(message_of([&] { DistributedDataParallel(group_, complex); }), {"unsupported", "ComplexFloat"});
    Linear net(LinearOptions(2, 2));
    net->register_buffer("mask", torch::ones({2}, torch::kBool));
    DistributedDataParallel model(group_, net);
    const auto folder = scratch_folder();
    lockstep::Checkpoint checkpoint(group_, folder);
    expect_message(message_of([&] { model.add_to(checkpoint); }), {"unsupported", "'mask' is of Bool"});
    if (rank() == 0) std::filesystem::remove_all(folder);
  });
  check("names that a checkpoint has already", [&] {
    Linear net(LinearOptions(2, 2));
    DistributedDataParallel model(group_, net);
    torch::optim::Adam optimizer(net->parameters());
    const auto folder = scratch_folder();
    lockstep::Checkpoint checkpoint(group_, folder);
    model.add_to(checkpoint);
    expect_message(message_of([&] { model.add_to(checkpoint); }), {"invalid argument", "'weight'"});
    model.add_to(checkpoint, optimizer);
    expect_message(message_of([&] { model.add_to(checkpoint, optimizer); }), {"invalid argument", "'optimizer."});
    if (rank() == 0) std::filesystem::remove_all(folder);
  });
  check("SGD with dampening before its first step", [&] {
    Linear net(LinearOptions(2, 2));
    DistributedDataParallel model(group_, net);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.5));
    const auto folder = scratch_folder();
    lockstep::Checkpoint checkpoint(group_, folder);
    expect_message(message_of([&] { model.add_to(checkpoint, optimizer); }), {"unsupported", "dampening"});
    if (rank() == 0) std::filesystem::remove_all(folder);
  });
}

void Cases::modules() {
  check("parameters and buffers of rank 0 on all ranks, also after steps", [&] {
    torch::manual_seed(100 + rank());
    Layers net;
    {
      torch::NoGradGuard no_grad;
      net->norm->running_mean.fill_(rank() + 1);
    }
    DistributedDataParallel model(group_, std::shared_ptr<LayersImpl>(net.ptr()));  // another kind of holder
    const auto expect_equal = [&](const torch::Tensor& tensor) {
      auto sum = tensor.detach().clone();
      const std::span<float> elements(static_cast<float*>(sum.data_ptr()), static_cast<std::size_t>(sum.numel()));
      group_.communicator().all_reduce(elements, elements, lockstep::ReduceOp::sum).wait();
      expect(sum.equal(2 * tensor.detach()), "ranks have other values");
    };
    expect(net->norm->running_mean.equal(torch::ones({3})), "a buffer is not rank 0's");
    for (const auto& parameter : net->parameters()) expect_equal(parameter);
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      model.forward(torch::randn({4, 3})).sum().backward();
      model.finish();
    }
    expect_equal(net->norm->running_mean);
    expect_equal(net->norm->running_var);
    expect(net->norm->num_batches_tracked.item<int64_t>() == 2, "the number of batches is wrong");
  });
  check("modules that differ", [&] {
    Linear net(LinearOptions(4 + rank(), 1));
    const std::string text = message_of([&] { DistributedDataParallel(group_, net); }, true);
    expect_message(text, {"mismatch", "other parameters or buffers than rank 0's", "build the same module", "rank 1"});
  });
  check("options that differ", [&] {
    Linear net(LinearOptions(4, 1));
    const DistributedOptions options{.compare_every = 10 + rank()};
    expect_message(message_of([&] { DistributedDataParallel(group_, net, options); }, true), {"mismatch", "rank 1"});
  });
  check("a frozen parameter, and one that thaws", [&] {
    Linear net(4, 1);
    net->bias.set_requires_grad(false);
    net->bias.data().fill_(rank() + 1);
    DistributedDataParallel model(group_, net);
    expect(net->bias.item<float>() == 1, "it is not rank 0's");
    model.forward(input(0)).sum().backward();
    model.finish();
    expect_gradient(net, mean(0));
    net->bias.set_requires_grad(true);
    expect_message(message_of([&] { model.finish(); }), {"'bias' needs a gradient now", "make a new one"});
  });
  check("what cannot be trained here", [&] {
    Linear net(4, 1);
    net->weight.set_requires_grad(false);
    net->bias.set_requires_grad(false);
    expect_message(message_of([&] { DistributedDataParallel(group_, net); }), {"no parameters"});
    Layers mixed;
    mixed->second->to(torch::kBFloat16);
    expect_message(message_of([&] { DistributedDataParallel(group_, mixed); }, true),
                   {"'second.weight' is BFloat16 and 'scale' is Float", "use autocast"});
    Embedding sparse(EmbeddingOptions(5, 2).sparse(true));
    DistributedDataParallel model(group_, sparse);
    const auto lookup = torch::tensor({1, 2}, torch::kLong);
    expect_message(message_of([&] { model.forward(lookup).sum().backward(); }), {"'weight' is sparse"});
    expect_message(message_of([&] { model.finish(); }), {"no rank made the gradient of 'weight' ready"});
  });
}

int Cases::run() {
  gradients();
  accumulation();
  shares();
  unused();
  divergence();
  memory();
  checkpoints();
  modules();
  return bad_ == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  lockstep::World world;
  ProcessGroup group(world);
  torch::set_num_threads(1);
  int result = 2;
  try {
    if (mode == "train" && argc == 4) result = train(group, argv[2], argv[3]);
    if (mode == "speed" && argc == 3) result = speed(group, argv[2]);
    if (mode == "cases") result = Cases(group).run();
    group.close();
    world.close();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return result;
}

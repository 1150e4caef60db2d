// SPDX-License-Identifier: Apache-2.0
#include "observe/tensor_board.hpp"

#include <vector>

namespace lockstep::observe {

void TensorBoard::write(const StepEvent& event) {
  const auto steps = static_cast<double>(event.steps);
  const Scalar scalars[] = {{"train/loss", event.loss},
                            {"train/learning_rate", event.learning_rate},
                            {"train/images_per_second", event.images_per_second},
                            {"step_seconds/data", event.data_wait_seconds / steps},
                            {"step_seconds/compute", compute_seconds(event) / steps},
                            {"step_seconds/communication", event.exposed_communication_seconds / steps}};
  file_.write(event.step, scalars);
}

void TensorBoard::write(const EpochEvent& event) {
  std::vector<Scalar> scalars{{"train/epoch_loss", event.train_loss}};
  for (const MetricValue& metric : event.metrics)
    if (metric.value) scalars.push_back({"val/" + metric.name, *metric.value});
  file_.write(event.step, scalars);
}

void TensorBoard::write(const PictureEvent& event) {
  file_.write(event.step,
              EncodedPicture{.tag = event.tag, .width = event.width, .height = event.height, .png = event.png});
}

}  // namespace lockstep::observe

// The gradients that whole programs compute against finite differences of their losses.
#include <algorithm>
#include <cmath>

#include "tests/core/models/kernels/host_program_runner.hpp"
#include "tests/core/models/kernels/small_models.hpp"

namespace foreshard {
namespace {

constexpr double kDeviation = 0.3;
constexpr double kStep = 1.0 / 64;

/// The elements of a parameter with the largest gradients.
std::vector<std::uint64_t> steepest(const HostProgram& host, std::uint32_t id, std::size_t count) {
  std::vector<std::uint64_t> elements(host.numel(id));
  for (std::uint64_t i = 0; i < elements.size(); ++i) elements[i] = i;
  std::stable_sort(elements.begin(), elements.end(), [&](std::uint64_t a, std::uint64_t b) {
    return std::abs(host.gradient(id, a)) > std::abs(host.gradient(id, b));
  });
  elements.resize(std::min(count, elements.size()));
  return elements;
}

/// d loss / d element, from four values of the loss (error of the fourth power of the step).
double slope(HostProgram& host, const Program& program, std::uint32_t id, std::uint64_t element) {
  const double middle = host.parameter(id, element);
  const auto loss_at = [&](double offset) {
    host.set_parameter(id, element, middle + offset);
    return host.run(program);
  };
  const double near = loss_at(kStep) - loss_at(-kStep);
  const double far = loss_at(2 * kStep) - loss_at(-2 * kStep);
  host.set_parameter(id, element, middle);
  return (8 * near - far) / (12 * kStep);
}

void check_gradients(const ModelConfig& model, const Settings& settings) {
  const Workload w = computing(model, settings);
  const Program& program = w.steps[1];
  HostProgram host(w, kDeviation);
  host.run(program);
  struct Expected {
    std::uint32_t id;
    std::uint64_t element;
    double gradient;
  };
  std::vector<Expected> all;
  std::vector<bool> trained;
  for (const Unit& unit : w.units)
    for (const Parameter& p : unit.parameters) trained.push_back(p.requires_grad);
  for (std::uint32_t id = 0; id < host.parameters(); ++id)
    if (trained[id])
      for (const std::uint64_t element : steepest(host, id, 2))
        all.push_back({id, element, host.gradient(id, element)});
  for (const Expected& e : all) {
    INFO(model.name << ", parameter " << e.id << ", element " << e.element);
    CHECK(e.gradient == Approx(slope(host, program, e.id, e.element)).epsilon(2e-3).margin(2e-5));
  }
}

TEST_CASE("gradients are the slopes of the loss") {
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"})
    check_gradients(small_model(name), small_settings());
}

TEST_CASE("gradients of what is trained are the slopes of the loss") {
  ModelConfig model = small_model("llama-tiny");
  model.lora = {3, {"wq", "w2"}};
  check_gradients(model, small_settings());
  model.lora = {};
  model.frozen = {"tok", "layers.*.w?", "norm"};
  check_gradients(model, small_settings());
}

TEST_CASE("an untrained model's loss is what theory says") {
  const Workload llama = computing(small_model("llama-tiny"), small_settings());
  CHECK(HostProgram(llama, 0.02).run(llama.steps[0]) ==
        Approx(std::log(11.0)).margin(0.1));  // logits of deviation 0.08
  const Workload mlp = computing(small_model("mlp"), small_settings());
  CHECK(HostProgram(mlp, 0).run(mlp.steps[0]) == Approx(0).margin(1e-6));  // the mean of normalised rows
  const Workload transformer = computing(small_model("torch-transformer"), small_settings());
  CHECK(std::abs(HostProgram(transformer, 0.02).run(transformer.steps[0])) < 10);  // 110 outputs of deviation 0.08
}

}  // namespace
}  // namespace foreshard

#include "core/models/trained_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/models/limits.hpp"
#include "core/models/name_pattern.hpp"

namespace foreshard::model {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kWeight = ".weight";

std::string_view module_of(std::string_view parameter) {
  return parameter.substr(0, std::min(parameter.rfind('.'), parameter.size()));
}

/// The families whose linear layers are nn.Linear, for which PEFT puts lora.Linear.
bool knows_lora(ModelFamily family) {
  switch (family) {
    case ModelFamily::mlp:
    case ModelFamily::llama:
    case ModelFamily::torch_transformer:
    case ModelFamily::hf_llama:
    case ModelFamily::hf_qwen2:
    case ModelFamily::hf_qwen3:
      return true;
    default:
      return false;
  }
}

/// The weight of a linear layer inside a block: embeddings and the head are the root's.
bool is_linear(const Parameter& p, bool in_block) {
  return in_block && p.shape.size() == 2 && p.name.ends_with(kWeight);
}

/// PEFT's default is by architecture (peft/utils/constants.py): q_proj and v_proj for llama and qwen.
LoraConfig with_targets(const ModelConfig& model) {
  LoraConfig lora = model.lora;
  if (!lora.targets.empty()) return lora;
  if (model.family == ModelFamily::mlp)
    lora.targets = {std::string(kAllLinear)};
  else if (model.family == ModelFamily::llama || model.family == ModelFamily::torch_transformer)
    lora.targets = {"wq", "wv"};
  else
    lora.targets = {"q_proj", "v_proj"};
  return lora;
}

bool targeted(const LoraConfig& lora, const Parameter& p, bool in_block) {
  if (lora.rank == 0 || !is_linear(p, in_block)) return false;
  return std::any_of(lora.targets.begin(), lora.targets.end(), [&](const std::string& target) {
    return target == kAllLinear || names_end(target, module_of(p.name));
  });
}

/// "tok, norm, head, layers.0.attn_norm, …": what patterns can name, of the root and of the first block.
std::string modules_of(const std::vector<Unit>& units) {
  std::string out;
  for (std::size_t u = 0; u < std::min<std::size_t>(2, units.size()); ++u) {
    std::string_view last;
    for (const Parameter& p : units[u].parameters) {
      if (module_of(p.name) == last) continue;
      last = module_of(p.name);
      out += fmt::format("{}{}", out.empty() ? "" : ", ", last);
    }
  }
  return units.size() > 2 ? fmt::format("{}; … {}", out, units.back().name) : out;
}

Result<void> check_targets(const ModelConfig& model, const std::vector<Unit>& units) {
  const LoraConfig lora = with_targets(model);
  if (lora.rank == 0) return {};
  if (!knows_lora(model.family))
    return fail(ErrorKind::usage, fmt::format("{}: LoRA's layers are not known for this family", model.name), "--lora",
                "mlp, llama-* and torch-transformer have them, and Hugging Face's llama, qwen2 and qwen3; record a "
                "step of any other");
  for (const std::string& target : lora.targets) {
    bool found = false;
    for (std::size_t u = 1; u < units.size(); ++u)
      for (const Parameter& p : units[u].parameters) found |= targeted({lora.rank, {target}}, p, true);
    if (found) continue;
    std::string layers;
    for (const Parameter& p : units.back().parameters)
      if (is_linear(p, true)) layers += fmt::format("{}{}", layers.empty() ? "" : ", ", module_of(p.name));
    return fail(ErrorKind::usage, fmt::format("'{}' names no linear layer of {}'s blocks", target, model.name),
                "--lora-targets", fmt::format("the last block's: {}; or all-linear", layers));
  }
  return {};
}

/// The family's units with LoRA's layers among them; fills places.
class Inserter {
 public:
  Inserter(const ModelConfig& model, const std::vector<Unit>& units) : lora_(with_targets(model)) {
    for (const Unit& unit : units) add(unit, &unit != &units.front());
  }

  TrainedModel take(const std::vector<ParameterId>& order) && {
    for (const ParameterId id : order) {
      const TrainedModel::Place& place = out_.places[id.value];
      out_.order.push_back(place.id);
      // A bias, which is the last parameter of its layer, has the update's layers behind it.
      const std::size_t weight = behind_[id.value];
      if (weight == kNone) continue;
      out_.order.push_back(out_.places[weight].lora_a);
      out_.order.push_back(out_.places[weight].lora_b);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  void add(const Unit& unit, bool in_block) {
    out_.units.push_back({unit.name, {}, unit.groups});
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter& p = unit.parameters[i];
      if (targeted(lora_, p, in_block)) weight_ = out_.places.size();
      const bool inside = weight_ != kNone;
      push(p,
           inside ? fmt::format("{}.base_layer{}", module_of(p.name), p.name.substr(module_of(p.name).size())) : p.name,
           lora_.rank == 0);
      out_.places.push_back({last(), {}, {}});
      behind_.push_back(kNone);
      const bool ends = i + 1 == unit.parameters.size() || module_of(unit.parameters[i + 1].name) != module_of(p.name);
      if (inside && ends) add_update(std::string(module_of(p.name)));
    }
  }

  void add_update(const std::string& module) {
    const auto rank = static_cast<std::int64_t>(lora_.rank);
    const Parameter weight = out_.units.back().parameters[index_.at(out_.places[weight_].id.value)];
    push({{}, {rank, weight.shape[1]}, weight.dtype}, module + ".lora_A.default.weight", true);
    out_.places[weight_].lora_a = last();
    push({{}, {weight.shape[0], rank}, weight.dtype}, module + ".lora_B.default.weight", true);
    out_.places[weight_].lora_b = last();
    behind_.back() = weight_;
    weight_ = kNone;
  }

  void push(Parameter p, std::string name, bool trained) {
    p.name = std::move(name);
    p.requires_grad = trained;
    index_.push_back(out_.units.back().parameters.size());
    out_.units.back().parameters.push_back(std::move(p));
  }
  [[nodiscard]] ParameterId last() const { return ParameterId{static_cast<std::uint32_t>(index_.size() - 1)}; }

  LoraConfig lora_;
  TrainedModel out_;
  std::vector<std::size_t> index_;   // in its unit, by ParameterId
  std::vector<std::size_t> behind_;  // by the family's number: of whose weight the update follows
  std::size_t weight_ = kNone;       // of the layer that is being added
};

Result<void> freeze(const std::vector<std::string>& patterns, const std::string& model, std::vector<Unit>& units) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (Unit& unit : units)
      for (Parameter& p : unit.parameters)
        if (names(pattern, p.name)) {
          p.requires_grad = false;
          found = true;
        }
    if (!found)
      return fail(ErrorKind::usage, fmt::format("'{}' names no parameter of {}", pattern, model), "--freeze",
                  "its modules: " + modules_of(units));
  }
  return {};
}

double numel(const std::vector<Unit>& units) {
  double out = 0;
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) {
      double n = 1;
      for (const std::int64_t size : p.shape) n *= static_cast<double>(size);
      out += n;
    }
  return out;
}

}  // namespace

Result<TrainedModel> trained_model(const ModelConfig& model, const std::vector<Unit>& units,
                                   const std::vector<ParameterId>& order) {
  FORESHARD_TRY(check_targets(model, units));
  TrainedModel out = Inserter(model, units).take(order);
  out.root_parameters = units.front().parameters.size();
  if (numel(out.units) > kMaxParameters)
    return fail(ErrorKind::usage,
                fmt::format("LoRA of rank {} has more parameters than can be planned", model.lora.rank), "--lora");
  FORESHARD_TRY(freeze(model.frozen, model.name, out.units));
  for (const Unit& unit : out.units)
    for (const Parameter& p : unit.parameters)
      if (p.requires_grad) return out;
  return fail(ErrorKind::usage, fmt::format("{}: every parameter is frozen, nothing is left to train", model.name),
              "--freeze", "its modules: " + modules_of(out.units));
}

}  // namespace foreshard::model

#include "traces/folder/titan_config.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/pytorch/byte_source.hpp"
#include "traces/pytorch/json_object.hpp"

namespace foreshard::traces {
namespace {

constexpr Bytes kLimit = 16 * kMiB;  // a configuration has some 20 KiB

class ConfigReader {
 public:
  explicit ConfigReader(const OrderedJson& root) : root_(root) {}

  TitanConfig read() {
    read_profiler();
    read_mesh();
    read_mixed_precision();
    read_checkpointing();
    read_optimizer();
    if (out_.batch_ranks == out_.about.settings.tensor_parallel) read_batch();
    return std::move(out_);
  }

 private:
  [[nodiscard]] const OrderedJson* find(const char* section, const char* key) const {
    const auto at = root_.find(section);
    if (at == root_.end() || !at->is_object()) return nullptr;
    const auto value = at->find(key);
    return value == at->end() ? nullptr : &*value;
  }
  /// 0 where it is absent, or no whole number of 32 bits.
  [[nodiscard]] std::uint32_t number(const char* section, const char* key) const {
    const OrderedJson* value = find(section, key);
    if (value == nullptr || !value->is_number_unsigned()) return 0;
    const auto wide = value->get<std::uint64_t>();
    return wide > UINT32_MAX ? 0 : static_cast<std::uint32_t>(wide);
  }
  [[nodiscard]] std::string word(const char* section, const char* key) const {
    const OrderedJson* value = find(section, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  [[nodiscard]] bool flag(const char* section, const char* key) const {
    const OrderedJson* value = find(section, key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  /// A value that no setting takes says nothing.
  void give(std::string_view key, std::string_view value) {
    if (value.empty() || !set_setting(out_.about.settings, key, value)) return;
    out_.about.given.emplace_back(key);
  }
  void give(std::string_view key, std::uint32_t value) {
    if (value > 0) give(key, std::to_string(value));
  }

  /// "profiling" was renamed "profiler".
  void read_profiler() {
    for (const char* section : {"profiling", "profiler"}) {
      if (!flag(section, "enable_profiling")) continue;
      constexpr std::uint32_t kWarmup = 3;  // torchtitan/tools/profiling.py
      const std::uint32_t warmup = number(section, "profiler_warmup");
      const std::uint32_t active = number(section, "profiler_active");
      out_.profile_freq = number(section, "profile_freq");
      out_.profiled_steps = (warmup > 0 ? warmup : kWarmup) + (active > 0 ? active : 1);
    }
  }
  void read_mesh() {
    give("replicate", number("parallelism", "data_parallel_replicate_degree"));
    if (const std::uint32_t ranks = number("parallelism", "tensor_parallel_degree"); ranks > 1)
      give("tensor_parallel", ranks);
    std::uint64_t ranks = 1;
    for (const char* key : {"tensor_parallel_degree", "context_parallel_degree", "pipeline_parallel_degree"})
      ranks = std::min<std::uint64_t>(ranks * std::max(1U, number("parallelism", key)), UINT32_MAX);
    out_.batch_ranks = static_cast<std::uint32_t>(ranks);
    // "default" reshards but under pipeline parallelism; the last unit's own rule is in the recording.
    const std::string policy = word("parallelism", "fsdp_reshard_after_forward");
    const bool pipelined = number("parallelism", "pipeline_parallel_degree") > 1;
    if (policy == "always" || (policy == "default" && !pipelined)) give("reshard_after_forward", "true");
    if (policy == "never" || (policy == "default" && pipelined)) give("reshard_after_forward", "false");
  }
  void read_mixed_precision() {
    give("param_dtype", word("training", "mixed_precision_param"));
    give("reduce_dtype", word("training", "mixed_precision_reduce"));
  }
  /// Selective checkpointing of every n-th layer begins with the n-th, and "memory_budget" is the compiler's: neither
  /// has a name here.
  void read_checkpointing() {
    const std::string mode = word("activation_checkpoint", "mode");
    if (mode == "none") give("checkpoint", "none");
    if (mode == "full") give("checkpoint", "blocks");
    if (mode == "selective" && word("activation_checkpoint", "selective_ac_option") == "op")
      give("checkpoint", "selective-op");
  }
  void read_optimizer() {
    const std::string name = word("optimizer", "name");
    const std::string implementation = word("optimizer", "implementation");
    if (name != "Adam" && name != "AdamW") return;
    if (implementation == "fused") give("optimizer", "adam-fused");
    if (implementation == "foreach") give("optimizer", "adam");
    if (implementation == "for-loop") give("optimizer", "adam-single");
  }
  /// A sequence, or a packed row of that many tokens. Under context parallelism a rank has a part of it, under pipeline
  /// parallelism a microbatch.
  void read_batch() {
    out_.accumulates =
        number("training", "global_batch_size") > 0 || number("training", "num_tokens_per_train_step") > 0;
    if (const std::uint32_t tokens = number("training", "num_tokens_per_microbatch_per_dp_rank"); tokens > 0) {
      give("batch", 1U);
      return give("seq", tokens);
    }
    give("batch", number("training", "local_batch_size"));
    give("seq", number("training", "seq_len"));
  }

  const OrderedJson& root_;
  TitanConfig out_;
};

}  // namespace

Result<std::optional<TitanConfig>> parse_titan_config(const std::string& text, const std::string& name) {
  const auto root = parse_strict_ordered_json(text, name, "torchtitan writes it with --debug.save_config_file");
  FORESHARD_TRY(root);
  const auto is_section = [&](const char* key) {
    const auto at = root->is_object() ? root->find(key) : root->end();
    return at != root->end() && at->is_object();
  };
  if (!is_section("training") || !is_section("parallelism")) return std::optional<TitanConfig>();
  return std::optional(ConfigReader(*root).read());
}

Result<std::optional<TitanConfig>> read_titan_config(const std::string& path) {
  auto source = ByteSource::open(path);
  FORESHARD_TRY(source);
  const auto text = read_all(*source, kLimit);
  FORESHARD_TRY(text);
  return parse_titan_config(*text, path);
}

}  // namespace foreshard::traces

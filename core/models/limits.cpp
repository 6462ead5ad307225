#include "core/models/limits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreshard::model {
namespace {

double real(std::uint64_t count) {
  return static_cast<double>(count);
}

/// Elements that the widest tensor has for each token.
double width(const ModelConfig& c) {
  const double experts = std::max(1.0, real(c.experts_per_token));
  double widest =
      std::max({real(c.vocab), real(c.experts), experts * std::max(real(c.dim), 3 * real(c.ffn)), real(c.dense_ffn),
                real(c.ffn) * real(c.shared_experts), real(c.head_dim) * (real(c.heads) + 2 * real(c.kv_heads))});
  for (const Unit& unit : c.units)
    for (const Parameter& p : unit.parameters) {
      if (p.shape.empty()) continue;
      double inner = 1;
      for (std::size_t i = 1; i < p.shape.size(); ++i) inner *= static_cast<double>(p.shape[i]);
      widest = std::max({widest, static_cast<double>(p.shape.front()), inner});
    }
  return widest;
}

/// Of one block's latent attention, norms left out.
double latent_parameters(const ModelConfig& c) {
  const LatentAttention& l = c.latent;
  const double heads = real(c.heads);
  const double q = heads * real(l.query());
  const double queries = l.q_rank > 0 ? real(l.q_rank) * (real(c.dim) + q) : real(c.dim) * q;
  const double keys = real(c.dim) * real(l.kv_rank + l.rope) + real(l.kv_rank) * heads * real(l.nope + l.value);
  return queries + keys + heads * real(l.value) * real(c.dim);
}

tl::unexpected<Error> beyond(const ModelConfig& c, std::string what) {
  return fail(ErrorKind::usage, fmt::format("{}: {}", c.name, what));
}

}  // namespace

ParameterCounts parameter_counts(const ModelConfig& c) {
  ParameterCounts out;
  const double layers = real(c.layers);
  const double dim = real(c.dim);
  const double projections = (c.family == ModelFamily::mlp ? 2 : 3) * dim;
  double sparse = 0;
  for (std::uint32_t i = 0; i < c.layers && c.experts > 0; ++i) sparse += c.has_experts(i) ? 1 : 0;
  const double dense_ffn = real(c.dense_ffn > 0 ? c.dense_ffn : c.ffn);
  if (c.latent.kv_rank > 0)
    out.attention = layers * latent_parameters(c);
  else if (c.family != ModelFamily::mlp)
    out.attention = layers * dim * real(c.head_dim) * 2 * (real(c.heads) + real(c.kv_heads));
  out.feed_forward = (layers - sparse) * projections * dense_ffn +
                     sparse * real(c.experts) * (projections * real(c.ffn) + dim) +
                     sparse * projections * real(c.ffn) * real(c.shared_experts);
  out.embedding = dim * ((c.tied_embedding ? 1 : 2) * real(c.vocab) + real(c.positions));
  for (const Unit& unit : c.units)
    for (const Parameter& p : unit.parameters) {
      double numel = 1;
      for (const std::int64_t size : p.shape) numel *= static_cast<double>(size);
      out.other += numel;
    }
  return out;
}

Result<void> check_limits(const ModelConfig& c, std::uint64_t batch, std::uint64_t seq) {
  constexpr double kBytes = 8;
  const double parameters = parameter_counts(c).all();
  if (parameters > kMaxParameters)
    return beyond(
        c, fmt::format("{:.3g} parameters are more than the {:.3g} that can be planned", parameters, kMaxParameters));
  if (c.layers > kMaxLayers)
    return beyond(c, fmt::format("{} layers are more than the {} that can be planned", c.layers, kMaxLayers));
  const double tokens = real(batch) * real(seq);
  const double bytes = tokens * width(c) * kBytes;
  if (bytes > kMaxTensorBytes)
    return beyond(c, fmt::format("batch {} × seq {} makes a tensor of up to {:.3g} bytes, more than the {:.3g} that "
                                 "can be planned",
                                 batch, seq, bytes, kMaxTensorBytes));
  const double attention = tokens * real(seq) * real(c.layers) * real(c.heads) * real(c.head_dim);
  const double rows = real(batch) * std::max(1.0, real(c.heads));  // KernelMath::batch has 32 bits
  if (parameters * tokens + attention > kMaxProducts || rows > 0x1p31)
    return beyond(c, fmt::format("batch {} × seq {} is more work than can be planned", batch, seq));
  return {};
}

Result<void> check_microbatches(const ModelConfig& c, std::uint32_t accumulate) {
  if (std::uint64_t{c.layers} * accumulate <= kMaxBlockRuns) return {};
  const std::uint64_t most = std::max<std::uint64_t>(1, kMaxBlockRuns / c.layers);
  return fail(ErrorKind::usage,
              fmt::format("{} microbatches of {} blocks are a longer step than can be planned (at most {})", accumulate,
                          c.layers, most),
              c.name,
              "microbatches after the second are alike: plan 4 and 8, each further one adds a quarter of the "
              "difference, and memory stays");
}

}  // namespace foreshard::model

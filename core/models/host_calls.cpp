#include "core/models/host_calls.hpp"

namespace foreshard {
namespace {

constexpr std::array<std::string_view, kHostCalls> kNames{"module",
                                                          "view",
                                                          "elementwise",
                                                          "reduction",
                                                          "gemm",
                                                          "attention",
                                                          "embedding",
                                                          "random",
                                                          "backward_elementwise",
                                                          "backward_reduction",
                                                          "backward_gemm",
                                                          "backward_attention",
                                                          "backward_view",
                                                          "accumulate_grad",
                                                          "zero_grad",
                                                          "step_begin",
                                                          "forward_root",
                                                          "pre_forward",
                                                          "post_forward",
                                                          "pre_backward",
                                                          "post_backward",
                                                          "backward_final",
                                                          "all_gather",
                                                          "all_gather_parameter",
                                                          "copy_out",
                                                          "copy_out_parameter",
                                                          "reduce",
                                                          "reduce_parameter",
                                                          "accumulate",
                                                          "reshard",
                                                          "optimizer_begin",
                                                          "optimizer_launch",
                                                          "optimizer_parameter",
                                                          "all_to_all",
                                                          "all_to_all_wait",
                                                          "backward_all_to_all"};

}  // namespace

std::string_view name(HostCall call) {
  return kNames[static_cast<std::size_t>(call)];
}

}  // namespace foreshard

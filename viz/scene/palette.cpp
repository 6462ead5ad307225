#include "viz/scene/palette.hpp"

namespace foreshard::viz {
namespace {

constexpr std::array<Style, kCategories> kCategoryStyles{{{"parameters (shards)", "#0072b2"},
                                                          {"unsharded parameters", "#56b4e9"},
                                                          {"gather buffers", "#a9d9f5"},
                                                          {"gradients (unsharded)", "#d55e00"},
                                                          {"reduce buffers", "#f0a03c"},
                                                          {"sharded gradients", "#f7cf95"},
                                                          {"optimizer state", "#8b4a7c"},
                                                          {"optimizer temporaries", "#d79bbd"},
                                                          {"activations", "#009e73"},
                                                          {"temporaries", "#7fd0b3"},
                                                          {"inputs", "#f0e442"},
                                                          {"workspaces", "#6f6f6f"},
                                                          {"metadata", "#3f3f3f"},
                                                          {"other", "#bdbdbd"}}};

constexpr std::array<Style, kOpClasses> kOpStyles{{{"GEMM", "#0072b2"},
                                                   {"attention", "#cc79a7"},
                                                   {"memory-bound kernel", "#9bbfd6"},
                                                   {"copy", "#8c8c8c"},
                                                   {"memset", "#c4c4c4"},
                                                   {"all-gather (AG)", "#56b4e9"},
                                                   {"reduce-scatter (RS)", "#e69f00"},
                                                   {"all-reduce (AR)", "#d55e00"},
                                                   {"other collective", "#8b4a7c"},
                                                   {"host issues", "#5b5b5b"},
                                                   {"host waits", "#d9b3b3"}}};

constexpr Ink kLight{"#ffffff", "#1a1a1a", "#555555", "#e3e3e3", "#f6f6f6",
                     "#000000", "#d0021b", "#000000", "#5a5a5a", "#c00000"};
constexpr Ink kDark{"#16181d", "#ececec", "#a9adb5", "#33373f", "#1d2027",
                    "#ffffff", "#ff6b6b", "#ffffff", "#b8b8b8", "#ff5c5c"};

constexpr std::array<MemoryCategory, kCategories> kStack{MemoryCategory::parameters,
                                                         MemoryCategory::optimizer_state,
                                                         MemoryCategory::other,
                                                         MemoryCategory::workspaces,
                                                         MemoryCategory::metadata,
                                                         MemoryCategory::inputs,
                                                         MemoryCategory::sharded_gradients,
                                                         MemoryCategory::activations,
                                                         MemoryCategory::temporaries,
                                                         MemoryCategory::unsharded_parameters,
                                                         MemoryCategory::gather_buffers,
                                                         MemoryCategory::gradients,
                                                         MemoryCategory::reduce_buffers,
                                                         MemoryCategory::optimizer_temporaries};

}  // namespace

Style style(MemoryCategory category) {
  const auto i = static_cast<std::size_t>(category);
  return kCategoryStyles[i < kCategories ? i : kCategories - 1];
}

Style style(OpClass op_class) {
  return kOpStyles[static_cast<std::size_t>(op_class)];
}

const Ink& ink(Theme theme) {
  return theme == Theme::dark ? kDark : kLight;
}

std::string_view group_colour(std::size_t number) {
  constexpr std::array<std::string_view, 12> kHues{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
                                                   "#7fd0b3", "#8b4a7c", "#a9d9f5", "#f0a03c", "#3f8f5f", "#d79bbd"};
  return kHues[number % kHues.size()];
}

const std::array<MemoryCategory, kCategories>& stack_order() {
  return kStack;
}

}  // namespace foreshard::viz

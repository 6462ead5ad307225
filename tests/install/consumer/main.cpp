#include <core/models/presets.hpp>
#include <sim/machine/profile.hpp>

int main() {
  const auto machine = foreshard::sim::builtin_profile("h200");
  const auto model = foreshard::preset("llama-8b");
  return machine && model ? 0 : 1;
}

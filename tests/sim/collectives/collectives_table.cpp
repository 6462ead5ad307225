// Prints the tables of docs/notes/collective_measurements.md: prices of collectives against measured and published
// times.
#include <fmt/format.h>

#include "accuracy/collectives_report.hpp"

int main() {
  using namespace foreshard;
  for (const std::string_view name : sim::builtin_profile_names()) {
    const Result<sim::MachineProfile> machine = sim::builtin_profile(name);
    if (!machine) return 1;
    const std::string text = accuracy::report_tables(*machine) + "\n" + accuracy::report_published(*machine);
    if (text.size() > 1) fmt::print("{}\n\n{}\n", name, text);
  }
  return 0;
}

#include "cli/terminal/host_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "cli/terminal/exit_code.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/check_context.hpp"
#include "core/base/quantity.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();
constexpr std::size_t kReserve = 4 * kMiB;  // for the words of the answer

std::unique_ptr<char[]> g_reserve;
void (*g_clean_up)() = nullptr;
std::optional<rlimit> g_before;
Bytes g_free = kNoLimit;  // when the process began

/// The number behind `key` in a file of lines "key: 123 kB" or "key 123".
std::optional<Bytes> entry(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) return std::nullopt;
    return std::stoull(line.substr(digits)) * (line.ends_with(" kB") ? kKiB : 1);
  }
  return std::nullopt;
}

/// Of the control group whose files are in `folder`; what it holds of files can be given back.
Bytes free_in_group(const std::string& folder, const char* limit_file, const char* usage_file, const char* cache_key) {
  const auto limit = entry(folder + limit_file, "");
  const auto used = entry(folder + usage_file, "");
  if (!limit || !used) return kNoLimit;
  const Bytes held = *used - std::min(*used, entry(folder + "/memory.stat", cache_key).value_or(0));
  return *limit - std::min(*limit, held);
}

/// Control groups of both versions (kernel: admin-guide/cgroup-v2, cgroup-v1/memory); within a container its own is
/// the root of what it sees.
Bytes free_in_groups() {
  Bytes least = kNoLimit;
  const auto consider = [&](const std::string& path) {
    const std::string v2 = "/sys/fs/cgroup" + path;
    const std::string v1 = "/sys/fs/cgroup/memory" + path;
    least = std::min({least, free_in_group(v2, "/memory.max", "/memory.current", "inactive_file"),
                      free_in_group(v1, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file")});
  };
  consider("");
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t path = line.find(":/");
    const bool of_memory = line.starts_with("0::") || line.find(":memory:") != std::string::npos;
    if (of_memory && path != std::string::npos) consider(line.substr(path + 1));
  }
  return least;
}

[[noreturn]] void out_of_memory() {
  static std::atomic<bool> answered = false;
  while (answered.exchange(true)) pause();  // another thread was first
  std::set_new_handler(nullptr);
  g_reserve.reset();
  const std::string doing = CheckContext::text();
  std::string text = "error: this machine's memory does not suffice: ";
  text += g_free == kNoLimit ? "more is needed than this process may take"
                             : "more is needed than the " + format_bytes(g_free) + " that were free";
  text += '\n' + doing;
  if (!replay_command().empty()) text += "  again: " + replay_command() + '\n';
  text += "  hint: a smaller input, fewer microbatches or steps, or a machine with more memory\n";
  text = printable(text, Lines::many);
  if (g_clean_up != nullptr) g_clean_up();
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  _exit(kOutOfHostMemory);
}

}  // namespace

void limit_host_memory() {
  const auto available = entry("/proc/meminfo", "MemAvailable:");
  const auto taken = entry("/proc/self/status", "VmData:");
  const auto mapped = entry("/proc/self/status", "VmSize:");
  rlimit now{};
  rlimit addresses{};
  if (!available || !taken || !mapped || getrlimit(RLIMIT_DATA, &now) != 0 || getrlimit(RLIMIT_AS, &addresses) != 0)
    return;
  g_free = std::min(*available + entry("/proc/meminfo", "SwapFree:").value_or(0), free_in_groups());
  if (addresses.rlim_cur != RLIM_INFINITY)
    g_free = std::min<Bytes>(g_free, addresses.rlim_cur - std::min<Bytes>(addresses.rlim_cur, *mapped));
  if (now.rlim_cur != RLIM_INFINITY && now.rlim_cur <= *taken + g_free) {
    g_free = now.rlim_cur - std::min<Bytes>(now.rlim_cur, *taken);
    return;
  }
  g_before = now;
  now.rlim_cur = std::min<rlim_t>(*taken + g_free, now.rlim_max);
  static_cast<void>(setrlimit(RLIMIT_DATA, &now));
}

void lift_host_memory_limit() {
  if (g_before) static_cast<void>(setrlimit(RLIMIT_DATA, &*g_before));
  g_before.reset();
}

void end_when_out_of_memory(void (*clean_up)()) {
  g_clean_up = clean_up;
  g_reserve = std::make_unique_for_overwrite<char[]>(kReserve);  // addresses: its pages need not be touched
  std::set_new_handler(out_of_memory);
}

}  // namespace foreshard::cli

#include "tests/gpu/launch/launched_runs.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/temporary_folder.hpp"

namespace foreshard::gpu::testing {
namespace {

double since(TimePoint start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::string> command(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{FORESHARD_LAUNCH_WORKER};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

}  // namespace

bool Finished::said(std::uint32_t rank, const std::string& part) const {
  return std::any_of(lines[rank].begin(), lines[rank].end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

bool Finished::nothing_left() const {
  // By process group; a process that has ended and that nobody has reaped yet counts as gone.
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t behind_name = text.rfind(") ");
    if (behind_name == std::string::npos) continue;  // it ended just now
    std::istringstream fields(text.substr(behind_name + 2));
    char state = 0;
    int parent = 0, group = 0;
    fields >> state >> parent >> group;
    if (state != 'Z' && std::find(processes.begin(), processes.end(), group) != processes.end()) return false;
  }
  return true;
}

std::string Finished::text() const {
  std::string out = fmt::format("{:.1f} s, exit code {}: {}\n", seconds, end.exit_code,
                                end.failure ? end.failure->text() : "no failure");
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    if (rank < end.ranks.size())
      out += fmt::format("rank {}: status {}, signal {}\n", rank, end.ranks[rank].status, end.ranks[rank].signal);
    for (const std::string& line : lines[rank]) out += fmt::format("  [rank {}] {}\n", rank, line);
  }
  return out;
}

Timeouts quick() {
  Timeouts out;
  out.join = Milliseconds(8'000);
  out.silence = Milliseconds(2'000);
  out.grace = Milliseconds(2'000);
  out.kill = Milliseconds(500);
  return out;
}

Finished launch(std::uint32_t ranks, std::vector<std::string> arguments, const Timeouts& timeouts) {
  Finished out;
  out.lines.resize(ranks);
  LaunchOptions options;
  options.ranks = ranks;
  options.variables = process_variables();
  options.timeouts = timeouts;
  options.on_line = [&](std::uint32_t rank, std::string_view line) { out.lines[rank].emplace_back(line); };
  options.on_start = [&](const std::vector<int>& processes) { out.processes = processes; };
  const auto start = std::chrono::steady_clock::now();
  auto end = launch_ranks(command(std::move(arguments)), options);
  out.seconds = since(start);
  if (end)
    out.end = std::move(*end);
  else
    out.end.failure = RunFailure{end.error().kind, {}, {}, end.error().text(), {}, {}};
  return out;
}

Process start_rank(std::uint32_t rank, std::uint32_t ranks, std::uint16_t port, std::vector<std::string> arguments,
                   const Variables& more) {
  Variables variables = process_variables();
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(ranks);
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["FORESHARD_PORT"] = std::to_string(port);
  variables["XDG_RUNTIME_DIR"] = runtime_folder();
  for (const auto& [name, value] : more) variables[name] = value;
  auto process = start_process(command(std::move(arguments)), variables, false);
  if (!process) throw std::runtime_error(process.error().text());
  return std::move(*process);
}

Finished wait_for(std::vector<Process>& processes, Milliseconds timeout, std::size_t left) {
  Finished out;
  const auto start = std::chrono::steady_clock::now();
  std::vector<bool> over(processes.size(), false);
  std::vector<std::string> words(processes.size());
  out.lines.resize(processes.size());
  out.end.ranks.assign(processes.size(), RankEnd{-1, 0});
  for (const Process& process : processes) out.processes.push_back(process.id);
  bool killed = false;
  while (std::count(over.begin(), over.end(), true) != static_cast<std::ptrdiff_t>(over.size())) {
    for (std::size_t i = 0; i < processes.size(); ++i) {
      pollfd words_of{processes[i].words.get(), POLLIN, 0};
      std::array<char, 4096> text;
      while (::poll(&words_of, 1, 0) > 0) {
        const ssize_t got = ::read(processes[i].words.get(), text.data(), text.size());
        if (got <= 0) break;
        words[i].append(text.data(), static_cast<std::size_t>(got));
      }
      if (over[i]) continue;
      const auto end = ended(processes[i].id);
      over[i] = end.has_value();
      if (end && !killed) out.end.ranks[i] = *end;
    }
    const auto alive = static_cast<std::size_t>(std::count(over.begin(), over.end(), false));
    if (!killed && alive > 0 && (alive <= left || std::chrono::steady_clock::now() - start > timeout)) {
      for (std::size_t i = 0; i < processes.size(); ++i)
        if (!over[i]) signal_group(processes[i].id, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(Milliseconds(10));
  }
  out.seconds = since(start);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::istringstream lines(words[i]);
    for (std::string line; std::getline(lines, line);) out.lines[i].push_back(line);
  }
  return out;
}

const std::filesystem::path& runtime_folder() {
  static const test::TemporaryFolder folder;
  return folder.path();
}

std::uint16_t free_port() {
  const OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace foreshard::gpu::testing

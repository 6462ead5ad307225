#include "cli/verbs/launcher.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "cli/terminal/child_process.hpp"
#include "cli/terminal/host_memory.hpp"
#include "cli/terminal/printable.hpp"
#include "cli/verbs/gpu_backend.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "gpu/launch/supervisor.hpp"

namespace foreshard::cli {
namespace {

constexpr std::string_view kProgram = "foreshard-gpu";

/// This process's arguments as it got them.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

/// What the dynamic linker says lacks, as something to install.
std::string library_hint(const std::string& words) {
  struct Library {
    std::string_view name;
    std::string_view hint;
  };
  constexpr std::array kLibraries{
      Library{"libnccl", "install NCCL 2.28 or newer (libnccl2, or pip install nvidia-nccl-cu13)"},
      Library{"libcublasLt", "install CUDA 13's cuBLAS (libcublas-13-0, or pip install nvidia-cublas)"},
      Library{"libcudnn", "install cuDNN 9 (libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13)"},
      Library{"libcuda.so", "install the NVIDIA driver"}};
  for (const Library& library : kLibraries)
    if (words.find(library.name) != std::string::npos)
      return fmt::format("{}, and name its folder in LD_LIBRARY_PATH", library.hint);
  return "put the folder of that library into LD_LIBRARY_PATH";
}

/// foreshard-gpu beside this program, or this program where it is that.
Result<std::string> gpu_program() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return fail(ErrorKind::input, "/proc/self/exe cannot be read: " + failed.message());
  if (gpu_backend() != nullptr) return self.string();
  const std::filesystem::path sibling = self.parent_path() / kProgram;
  if (access(sibling.c_str(), X_OK) == 0) return sibling.string();
  return fail(ErrorKind::skipped, fmt::format("{} is not beside this program: it was built without CUDA", kProgram),
              sibling.string(),
              "build where nvcc 13, NCCL, cuBLASLt and cuDNN are (cmake -DFORESHARD_GPU=ON says what is missing)");
}

/// Whether the program's libraries are all there: the dynamic linker's own words where not.
Result<void> check_loads(const std::string& program) {
  const auto output = read_program({program, "--version"});
  FORESHARD_TRY(output);
  if (output->succeeded) return {};
  const std::string words = output->text.substr(0, output->text.find('\n'));
  return fail(ErrorKind::skipped, words.empty() ? "the program cannot be started" : words, program,
              library_hint(words));
}

}  // namespace

bool is_rank() {
  return gpu::launched(gpu::process_variables());
}

Result<int> become_rank() {
  lift_host_memory_limit();
  const auto program = gpu_program();
  FORESHARD_TRY(program);
  FORESHARD_TRY(check_loads(*program));
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(program->c_str(), pointers.data());
  return fail(ErrorKind::input, std::string("execv: ") + std::strerror(errno), *program);
}

Result<int> start_ranks(std::uint32_t ranks, Console& console) {
  lift_host_memory_limit();
  const auto program = gpu_program();
  FORESHARD_TRY(program);
  FORESHARD_TRY(check_loads(*program));
  std::vector<std::string> command = own_arguments();
  command[0] = *program;
  gpu::LaunchOptions options;
  options.ranks = ranks;
  options.variables = gpu::process_variables();
  options.on_line = [&console, ranks](std::uint32_t rank, std::string_view text) {
    const std::string line = printable(text, Lines::one);
    if (ranks == 1)
      console.err << line << '\n';
    else
      console.err << fmt::format("[rank {}] {}\n", rank, line);
  };
  const auto end = gpu::launch_ranks(command, options);
  FORESHARD_TRY(end);
  if (!end->unauthenticated.empty()) console.note("note: " + end->unauthenticated);
  if (end->interrupted_by != 0 && end->interrupted_by != SIGINT) {  // who waits for us sees what ended us, as elsewhere
    console.error(end->failure->text());
    raise(end->interrupted_by);
  }
  if (end->failure && end->exit_code == static_cast<int>(end->failure->kind))
    return tl::unexpected(end->failure->error());
  return end->exit_code;
}

}  // namespace foreshard::cli

#include "gpu/bootstrap/secret_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "gpu/bootstrap/proof.hpp"

namespace foreshard::gpu {
namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::string mode_text(mode_t mode) {
  return fmt::format("{:03o}", mode & 0777);
}

/// What is wrong with a file as the place of a secret, and what to do.
Result<void> check_file(int descriptor, const std::string& path) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return fail(ErrorKind::input, reason(errno), path);
  if (!S_ISREG(about.st_mode)) return fail(ErrorKind::input, "the run's secret must be in a regular file", path);
  if (about.st_uid != ::geteuid())
    return fail(ErrorKind::input,
                fmt::format("the file of the run's secret belongs to user {}, not to {}", about.st_uid, ::geteuid()),
                path, "make one of your own: (umask 077; openssl rand -hex 16 > FILE)");
  if ((about.st_mode & kOthers) != 0)
    return fail(ErrorKind::input,
                fmt::format("others may use the file of the run's secret (mode {})", mode_text(about.st_mode)), path,
                fmt::format("chmod 600 {}, and write a new secret into it if others may have read it", path));
  return {};
}

Result<std::string> read_secret(const OwnedDescriptor& file, const std::string& path) {
  FORESHARD_TRY(check_file(file.get(), path));
  std::array<char, kMaxSecretBytes + 3> bytes;
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorKind::input, reason(errno), path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  std::string secret(bytes.data(), size);
  if (secret.ends_with('\n')) secret.pop_back();
  if (secret.ends_with('\r')) secret.pop_back();
  if (secret.size() > kMaxSecretBytes)
    return fail(ErrorKind::input, fmt::format("the run's secret has more than {} bytes", kMaxSecretBytes), path);
  if (secret.size() < kMinSecretBytes)
    return fail(ErrorKind::input,
                fmt::format("the run's secret has {} bytes; at least {} are needed", secret.size(), kMinSecretBytes),
                path, "write a new one: openssl rand -hex 16 > FILE");
  return secret;
}

/// Whether the system gave this user a folder of their own: it may be missing on a host that nobody logged in to.
bool own_folder(const std::string& path) {
  struct stat about {};
  return !path.empty() && ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() &&
         (about.st_mode & kOthers) == 0;
}

struct Folder {
  OwnedDescriptor descriptor;
  std::string path;
};

tl::unexpected<Error> unusable_folder(const std::string& what, const std::string& path) {
  return fail(ErrorKind::rendezvous, "the ranks of this host cannot share a secret: " + what, path,
              "remove it, or give every rank the same FORESHARD_SECRET");
}

Result<Folder> open_folder(const std::string& runtime_folder) {
  Folder out;
  out.path = own_folder(runtime_folder) ? runtime_folder + "/foreshard" : fmt::format("/tmp/foreshard-{}", ::geteuid());
  if (::mkdir(out.path.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return unusable_folder("the folder cannot be made: " + reason(errno), out.path);
  out.descriptor.reset(::open(out.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!out.descriptor) return unusable_folder("it is no folder of its own: " + reason(errno), out.path);
  struct stat about {};
  if (::fstat(out.descriptor.get(), &about) != 0) return unusable_folder(reason(errno), out.path);
  if (about.st_uid != ::geteuid())
    return unusable_folder(fmt::format("the folder belongs to user {}", about.st_uid), out.path);
  if ((about.st_mode & kOthers) != 0)
    return unusable_folder(fmt::format("others may use the folder (mode {})", mode_text(about.st_mode)), out.path);
  return out;
}

std::string name_of(std::uint16_t port) {
  struct stat network {};  // one port may be taken in each
  if (::stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return fmt::format("{}-{}", port, network.st_ino);
}

Result<void> write_secret(int file, std::string_view secret, const std::string& path) {
  if (file < 0) return unusable_folder("the file cannot be made: " + reason(errno), path);
  while (!secret.empty()) {
    const ssize_t written = ::write(file, secret.data(), secret.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return unusable_folder("the file cannot be written: " + reason(errno), path);
    secret.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::string> read_secret_file(const std::string& path) {
  // Without waiting for a FIFO's writer; what it is is looked at once it is open.
  const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return fail(ErrorKind::input, "the file of the run's secret cannot be read: " + reason(errno), path,
                "FORESHARD_SECRET_FILE names it; every host must see it");
  return read_secret(file, path);
}

Result<HostSecret> HostSecret::publish(const std::string& runtime_folder, std::uint16_t port, std::string_view secret) {
  auto folder = open_folder(runtime_folder);
  FORESHARD_TRY(folder);
  const std::string name = name_of(port), path = folder->path + "/" + name;
  const std::string unfinished = fmt::format("{}.{}", name, ::getpid());
  const int at = folder->descriptor.get();
  ::unlinkat(at, unfinished.c_str(), 0);
  const OwnedDescriptor file(
      ::openat(at, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  auto written = write_secret(file.get(), secret, path);
  if (written && ::renameat(at, unfinished.c_str(), at, name.c_str()) != 0)
    written = unusable_folder("the file cannot be renamed: " + reason(errno), path);
  if (!written) {
    ::unlinkat(at, unfinished.c_str(), 0);
    return tl::unexpected(written.error());
  }
  return HostSecret(std::move(folder->descriptor), name);
}

Result<std::string> HostSecret::find(const std::string& runtime_folder, std::uint16_t port) {
  const auto folder = open_folder(runtime_folder);
  FORESHARD_TRY(folder);
  const std::string name = name_of(port), path = folder->path + "/" + name;
  const OwnedDescriptor file(
      ::openat(folder->descriptor.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return fail(ErrorKind::rendezvous, "there is no secret that rank 0 of this run has made: " + reason(errno), path,
                "set FORESHARD_PORT to a free port on every rank; where the ranks do not share that folder, give every "
                "rank the same FORESHARD_SECRET");
  auto secret = read_secret(file, path);
  if (!secret) secret.error().kind = ErrorKind::rendezvous;
  return secret;
}

HostSecret::~HostSecret() {
  if (folder_) ::unlinkat(folder_.get(), name_.c_str(), 0);
}

}  // namespace foreshard::gpu

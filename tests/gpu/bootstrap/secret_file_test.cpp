#include "gpu/bootstrap/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

const std::string kSecret = "0123456789abcdef0123456789abcdef";

std::string private_file(const test::TemporaryFolder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder.write(name, text);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

/// Not read, for this reason and with this hint, and the path is named.
void not_read(const std::string& path, const std::string& reason, const std::string& hint = "") {
  const auto secret = read_secret_file(path);
  REQUIRE_FALSE(secret);
  INFO(secret.error().text());
  CHECK(secret.error().kind == ErrorKind::input);
  CHECK(secret.error().where == path);
  CHECK(secret.error().what.find(reason) != std::string::npos);
  CHECK(secret.error().hint.find(hint) != std::string::npos);
}

void not_shared(const Result<std::string>& secret, const std::string& reason) {
  REQUIRE_FALSE(secret);
  INFO(secret.error().text());
  CHECK(secret.error().kind == ErrorKind::rendezvous);
  CHECK(secret.error().text().find(reason) != std::string::npos);
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE("a file with a secret, as openssl and editors write it") {
  const test::TemporaryFolder folder;
  CHECK(*read_secret_file(private_file(folder, "a", kSecret)) == kSecret);
  CHECK(*read_secret_file(private_file(folder, "b", kSecret + "\n")) == kSecret);
  CHECK(*read_secret_file(private_file(folder, "c", kSecret + "\r\n")) == kSecret);
  CHECK(read_secret_file(private_file(folder, "d", std::string(4096, 'x') + "\n"))->size() == 4096);
}

TEST_CASE("a file that others can use, or that holds no secret, is refused by its path") {
  const test::TemporaryFolder folder;
  const std::string path = private_file(folder, "secret", kSecret);
  for (const mode_t mode : {0640U, 0604U, 0620U, 0644U}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    not_read(path, "others may use the file of the run's secret", "chmod 600 " + path);
  }
  not_read(private_file(folder, "short", "fifteen bytes..\n"), "has 15 bytes; at least 16", "openssl rand -hex 16");
  not_read(private_file(folder, "long", std::string(4097, 'x')), "more than 4096 bytes");
  not_read(private_file(folder, "empty", ""), "has 0 bytes");
  not_read(folder.file("absent"), "No such file or directory", "FORESHARD_SECRET_FILE");
  not_read(folder.path().string(), "must be in a regular file");
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  not_read(fifo, "must be in a regular file");
  if (::geteuid() != 0) return;
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  not_read(path, "belongs to user 65534, not to 0");
}

TEST_CASE("ranks of one host find what rank 0 made, and it goes with it") {
  const test::TemporaryFolder runtime;
  const std::filesystem::path folder = runtime.path() / "foreshard";
  not_shared(HostSecret::find(runtime.path(), 4000), "there is no secret that rank 0 of this run has made");
  {
    const auto published = HostSecret::publish(runtime.path(), 4000, kSecret);
    REQUIRE(published);
    CHECK(*HostSecret::find(runtime.path(), 4000) == kSecret);
    not_shared(HostSecret::find(runtime.path(), 4001), "No such file or directory");
    struct stat about {};
    REQUIRE(::stat(folder.c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0700);
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      REQUIRE(::stat(file.path().c_str(), &about) == 0);
      CHECK((about.st_mode & 0777) == 0600);
    }
    CHECK(files_in(folder) == 1);
  }
  CHECK(files_in(folder) == 0);
}

TEST_CASE("what a killed run left is replaced, a link in its place is not followed") {
  const test::TemporaryFolder runtime;
  const auto first = HostSecret::publish(runtime.path(), 4000, "of a run that was killed");
  REQUIRE(first);
  const auto second = HostSecret::publish(runtime.path(), 4000, kSecret);
  REQUIRE(second);
  CHECK(*HostSecret::find(runtime.path(), 4000) == kSecret);
  const std::string target = private_file(runtime, "target", "somebody else's file");
  const auto file = std::filesystem::directory_iterator(runtime.path() / "foreshard")->path();
  std::filesystem::remove(file);
  std::filesystem::create_symlink(target, file);
  not_shared(HostSecret::find(runtime.path(), 4000), "there is no secret that rank 0");
  const auto third = HostSecret::publish(runtime.path(), 4000, kSecret);
  REQUIRE(third);
  CHECK(*HostSecret::find(runtime.path(), 4000) == kSecret);
  CHECK(test::file_bytes(target) == "somebody else's file");
}

TEST_CASE("a folder that is a link, somebody else's, or open to others is not used") {
  const test::TemporaryFolder runtime, elsewhere;
  const std::string folder = runtime.file("foreshard");
  const auto refused = [&](const std::string& reason) {
    const auto published = HostSecret::publish(runtime.path(), 4000, kSecret);
    REQUIRE_FALSE(published);
    INFO(published.error().text());
    CHECK(published.error().where == folder);
    CHECK(published.error().what.find(reason) != std::string::npos);
    not_shared(HostSecret::find(runtime.path(), 4000), reason);
  };
  std::filesystem::create_directory_symlink(elsewhere.path(), folder);
  refused("it is no folder of its own");
  CHECK(files_in(elsewhere.path()) == 0);
  std::filesystem::remove(folder);
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(::chmod(folder.c_str(), 0750) == 0);
  refused("others may use the folder (mode 750)");
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
  if (::geteuid() != 0) return;
  REQUIRE(::chown(folder.c_str(), 65534, 65534) == 0);
  refused("the folder belongs to user 65534");
}

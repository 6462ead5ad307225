#include "cli/terminal/build_id.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace foreshard::cli {
namespace {

constexpr std::size_t kWord = 4;  // what names and descriptions of notes are padded to

constexpr std::size_t padded(std::size_t size) {
  return (size + kWord - 1) / kWord * kWord;
}

/// Of the notes of one segment.
std::string build_id_of(std::span<const std::byte> notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name = sizeof note;
    const std::size_t value = name + padded(note.n_namesz);
    if (value + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
        std::memcmp(notes.data() + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
      std::string out;
      for (const std::byte byte : notes.subspan(value, note.n_descsz))
        out += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
      return out;
    }
    notes = notes.subspan(std::min(notes.size(), value + padded(note.n_descsz)));
  }
  return {};
}

/// Of the first object, which is the executable.
int look(dl_phdr_info* info, std::size_t, void* found) {
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const std::byte*>(info->dlpi_addr + segment.p_vaddr);
    auto& id = *static_cast<std::string*>(found);
    if (id = build_id_of({begin, segment.p_memsz}); !id.empty()) break;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(look, &id);
  return id;
}

}  // namespace foreshard::cli

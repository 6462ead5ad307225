// `--part` and `--parts`: work that is split over tasks, a file a part, and all of them together.
//
// `foreshard sweep … --part 3/8 --parts DIR` writes part-3-of-8.json into DIR; the same without --part reads all parts
// and goes on as if it had simulated every point: same bytes. `plan … --trials 200` has the same for its trials, and
// `forecast` for its seeds; `tune` has a folder a part (cli/verbs/batch_parts.hpp). A part knows by a fingerprint what
// it is of. A file is there whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/option_set.hpp"
#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"
#include "sim/parallel/part_file.hpp"

namespace foreshard::cli {

struct PartsOptions {
  std::string part;    ///< "3/8", "auto"; empty: all pieces
  std::string folder;  ///< of the parts; empty: none

  /// `pieces`: what is split, "points".
  void add_to(OptionSet& set, std::string_view pieces);
  /// The part that is asked for; none: not one. Errors (usage): what is no part, one without a folder, `auto` where no
  /// launcher says which task this is.
  [[nodiscard]] Result<std::optional<sim::Part>> wanted() const;
  /// All parts are to be read.
  [[nodiscard]] bool joins() const { return part.empty() && !folder.empty(); }
};

/// What a part is: part-3-of-8.json, or the folder part-3-of-8.
enum class PartForm : std::uint8_t { file = 0, folder = 1 };

/// "DIR/part-3-of-8.json".
[[nodiscard]] std::string part_path(const std::string& folder, const sim::Part& part, PartForm form = PartForm::file);

/// Those that are there by their names, of one way of splitting, in order. Errors (input): none is there, the folder
/// cannot be read, or parts are of different numbers.
[[nodiscard]] Result<std::vector<sim::Part>> parts_of_folder(const std::string& folder, PartForm form);

/// The folder of all parts, made where there is none. Errors: input, where it cannot be made or read; usage, where it
/// has parts of another number.
[[nodiscard]] Result<void> make_parts_folder(const std::string& folder, const sim::Part& part, PartForm form);

/// Of numbers in order: "2, 5 to 7".
[[nodiscard]] std::string numbers_text(const std::vector<std::uint32_t>& numbers);

/// Before the work is done. Makes the folder where there is none. Errors: input, where it cannot be made or read;
/// usage, where the part exists and `force` is not set, or where the folder has parts of another number.
[[nodiscard]] Result<void> may_write_part(const std::string& folder, const sim::Part& part, bool force);

/// Errors: may_write_part()'s; input, where the file cannot be written.
[[nodiscard]] Result<void> write_part(const std::string& folder, const sim::Part& part, const std::string& text,
                                      bool force);

/// A part that is there now.
struct WrittenPart {
  sim::Part part;
  std::size_t own = 0;     ///< pieces in it
  std::size_t pieces = 0;  ///< of all parts
  std::string path;
};
/// Of one that write_part() wrote.
[[nodiscard]] WrittenPart written_part(const PartsOptions& options, const sim::Part& part, std::size_t pieces);

/// "part 3 of 8 (0 to 7): 40 of 320 points are in …", and where the answer is to be had.
[[nodiscard]] std::string part_words(const PartsOptions& options, const WrittenPart& written, std::string_view what);

/// The same as a verb's --json.
[[nodiscard]] Json part_json(std::string_view verb, const WrittenPart& written, const std::string& fingerprint);

/// One part's file, as text, with its name.
struct PartText {
  sim::Part part;
  std::string path, text;
};
/// Every part in the folder. Errors: input, where there is none, one cannot be read, or parts are of different numbers;
/// usage, where some are missing, which are named.
[[nodiscard]] Result<std::vector<PartText>> read_parts(const std::string& folder);

/// Fails where a file holds another part than its name says (input), or one of other work (mismatch).
[[nodiscard]] Result<void> check_part(const PartText& file, const sim::Part& part, bool same_work);

/// Every piece, from all parts. `parse`: of one part's file.
template <class T, class Parse>
[[nodiscard]] Result<std::vector<T>> join_parts(const std::string& folder, const std::string& fingerprint,
                                                std::size_t pieces, const Parse& parse) {
  const auto files = read_parts(folder);
  FORESHARD_TRY(files);
  std::vector<T> out(pieces);  // each is in one part: read_parts() has all of them
  for (const PartText& file : *files) {
    auto read = parse(file.text, file.path);
    FORESHARD_TRY(read);
    FORESHARD_TRY(check_part(file, read->part, read->fingerprint == fingerprint && read->found.size() == pieces));
    for (std::size_t i = 0; i < pieces; ++i)
      if (read->found[i]) out[i] = std::move(*read->found[i]);
  }
  return out;
}

}  // namespace foreshard::cli

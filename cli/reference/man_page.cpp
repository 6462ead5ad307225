#include <fmt/format.h>

#include <algorithm>

#include "cli/reference/reference_verbs.hpp"
#include "cli/terminal/version.hpp"

namespace foreshard::cli {
namespace {

/// One character outside ASCII as groff names it; `at` moves behind it.
std::string special(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned lead = byte(at);
  const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  unsigned code = lead & (0x3fU >> more);
  for (std::size_t i = 1; i <= more; ++i) code = code << 6U | (byte(at + i) & 0x3fU);
  at += more;
  return fmt::format("\\[u{:04X}]", code);
}

/// Text of a paragraph: nothing in it is a request or an escape.
std::string troff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (static_cast<unsigned char>(c) >= 0x80)
      out += special(text, i);
    else
      out += c;
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

std::string heading(const std::string& name, std::string_view summary) {
  return fmt::format(".TH {} 1 \"\" \"foreshard {}\" \"foreshard\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", upper(name),
                     version_number(), troff(name), troff(summary));
}

void add_man_option(std::string& out, const OptionFacts& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + ("\\fB" + troff(name) + "\\fR");
  for (const std::string& name : option.off) names += ", \\fB" + troff(name) + "\\fR";
  if (option.positional) names = "\\fI" + troff(option.type_name.empty() ? option.names[0] : option.type_name) + "\\fR";
  if (!option.positional && !option.type_name.empty()) names += " \\fI" + troff(option.type_name) + "\\fR";
  out += fmt::format(".TP\n{}\n{}.\n", names, troff(option.help));
  if (option.words.empty() || option.type_name.find('|') != std::string::npos) return;  // the type lists them
  out += fmt::format("{}: {}.\n", option.no_others ? "One of" : "Known", troff(joined(option.words)));
}

/// One heading a group, in the order in which groups appear.
void add_options(std::string& out, const DescribedVerb& verb) {
  std::vector<std::string> groups;
  for (const OptionFacts& option : verb.options)
    if (!option.positional && std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  for (const std::string& group : groups) {
    out += fmt::format(".SH {}\n", troff(upper(group)));
    for (const OptionFacts& option : verb.options)
      if (!option.positional && option.group == group) add_man_option(out, option);
  }
}

void add_examples(std::string& out, const DescribedVerb& verb) {
  out += ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : verb.examples) out += "foreshard " + troff(example) + "\n";
  out += ".fi\n";
}

constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n0 where it went as asked, 2 for a wrong option, 3 for input that cannot be read, 10 for a "
    "prediction that does\nnot fit into memory, 11 for a deadlock; docs/exit_codes.md lists all.\n";

}  // namespace

std::string man_overview(const std::vector<DescribedVerb>& verbs) {
  std::string out = heading("foreshard", "predicts what a PyTorch FSDP2 training step costs in time and memory");
  out += "\\fBforeshard\\fR \\fIVERB\\fR [\\fIINPUT\\fR] [options]\n.SH VERBS\n";
  for (const DescribedVerb& verb : verbs)
    out += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", troff(verb.name), troff(verb.summary));
  out += kExitStatus;
  out += ".SH SEE ALSO\n";
  for (const DescribedVerb& verb : verbs)
    out += fmt::format(".BR foreshard\\-{} (1){}\n", troff(verb.name), &verb == &verbs.back() ? "" : ",");
  return out;
}

std::string man_page(const DescribedVerb& verb) {
  std::string out = heading("foreshard-" + verb.name, verb.summary);
  out += fmt::format("\\fBforeshard {}\\fR", troff(verb.name));
  for (const OptionFacts& option : verb.options)
    if (option.positional) {
      const std::string name = "\\fI" + troff(option.type_name.empty() ? option.names[0] : option.type_name) + "\\fR";
      out += option.required ? " " + name : " [" + name + "]";
    }
  out += " [options]\n.SH DESCRIPTION\n" + troff(verb.summary) + ".\n";
  for (const OptionFacts& option : verb.options)
    if (option.positional) add_man_option(out, option);
  add_options(out, verb);
  add_examples(out, verb);
  out += kExitStatus;
  return out + ".SH SEE ALSO\n.BR foreshard (1)\n";
}

}  // namespace foreshard::cli

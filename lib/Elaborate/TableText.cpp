#include "Elaborate/TableText.h"

#include "Elaborate/Cells.h"
#include "Elaborate/Placement.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace sluice {

namespace {

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// What both notations share: where the scan stands, and what it makes.
class Reader {
public:
  Reader(llvm::StringRef text, uint32_t offset, TableLimits limits, std::vector<Site> &sites,
         Diagnostics &diagnostics)
      : begin(text.begin()), end(text.end()), at(text.begin()), offset(offset), limits(limits), sites(sites),
        diagnostics(diagnostics) {}

protected:
  uint32_t offsetOf(const char *p) const { return offset + static_cast<uint32_t>(p - begin); }
  Span spanOf(const char *from, const char *to) const {
    return {offsetOf(from), offsetOf(std::max(to, from + 1))};
  }
  uint32_t device() const { return static_cast<uint32_t>(current - table.rows.data()); }

  void reserve(size_t cells) {
    table.ops.reserve(cells);
    table.siteOf.reserve(cells);
    sites.reserve(sites.size() + cells);
  }

  /// Begins the row of `d`; its ops are those added until the next row begins. 803 if there is no such
  /// device.
  bool beginRow(uint64_t d, const char *from, const char *to) {
    if (d >= maxDevices) {
      diagnostics.report(Rule::IndexOutOfRange, spanOf(from, to),
                         {{"op", "the row"},
                          {"what", "device"},
                          {"index", std::to_string(d)},
                          {"bound", fmt::format("devices are 0 to {}", maxDevices - 1)}});
      return good = false;
    }
    if (table.rows.size() <= d)
      table.rows.resize(d + 1);
    current = &table.rows[d];
    cells = 0;
    return true;
  }

  void add(Op op, const char *from, const char *to) {
    table.siteOf.push_back(static_cast<uint32_t>(sites.size()));
    sites.push_back({{offsetOf(from), offsetOf(to)}, 0});
    table.ops.push_back(op);
    communicating |= op.isCommunication();
  }

  /// A cell that is not just one op.
  void addCell(llvm::StringRef text) {
    Cell cell = parseCell(text);
    if (cell.badAt != llvm::StringRef::npos)
      return badCell(text, cell.badAt);
    if (cell.ops.empty())
      return;
    auto site = static_cast<uint32_t>(sites.size());
    sites.push_back({spanOf(text.begin(), text.end()), 0});
    for (const Op &op : cell.ops) {
      table.ops.push_back(op);
      table.siteOf.push_back(site);
      communicating |= op.isCommunication();
    }
  }

  void badCell(llvm::StringRef text, size_t badAt) {
    good = false;
    if (++badCells > mostBadCells)
      return;
    llvm::StringRef rest = text.drop_front(badAt);
    // Behind a number it is no number that is missing, but the rest of an overlap.
    std::string from = !rest.empty()          ? fmt::format("from \"{}\" on", shortened(rest))
                       : isDigit(text.back()) ? "at its end: the rest of the overlap is missing"
                                              : "at its end: a number is missing";
    Finding &finding = diagnostics.report(Rule::BadCell, spanOf(text.begin(), text.end()),
                                          {{"cell", shortened(text)}, {"from", from}});
    finding.device = device();
    finding.notes.push_back({fmt::format("{}cell {}, character {}", rowText(), cells, badAt + 1),
                             spanOf(rest.begin(), rest.begin() + 1), device(), ""});
    std::string near = text.size() > longestShown ? "" : nearestCell(text);
    if (isCounted && (text.contains('\t') || (text.contains(';') && !text.starts_with("("))))
      finding.fix.message = "put commas between cells";
    else
      finding.fix.message = near.empty() ? "stage, one of F I W B, microbatch: 0F3; or (0F7;7B3)OVERLAP_F_B"
                                         : fmt::format("\"{}\"?", near);
  }

  /// Rows of a CSV are counted, those of a table have their device in front of them.
  std::string rowText() const {
    return isCounted ? fmt::format("row {} (device {}), ", device() + 1, device())
                     : fmt::format("device {}, ", device());
  }

  static constexpr size_t longestShown = 80;
  static std::string shortened(llvm::StringRef text) {
    return text.size() <= longestShown ? text.str() : (text.take_front(longestShown) + "...").str();
  }

  bool isTooLong(const char *where) {
    if (table.ops.size() <= limits.maxOps)
      return false;
    Finding &finding =
        diagnostics.report(Rule::TooManyOps, spanOf(where, where + 1),
                           {{"limit", std::to_string(limits.maxOps)},
                            {"what", "ops"},
                            {"where", fmt::format(": the row of device {} makes more", device())}});
    finding.fix.message = "a larger --max-ops";
    good = false;
    return true;
  }

  std::optional<TableText> finish() {
    table.hasCommunication = communicating;
    return good ? std::optional(std::move(table)) : std::nullopt;
  }

  const char *const begin, *const end;
  const char *at;
  const uint32_t offset;
  const TableLimits limits;
  std::vector<Site> &sites;
  Diagnostics &diagnostics;
  TableText table;
  TableText::Row *current = nullptr;
  uint32_t cells = 0; ///< Of the row so far, empty ones too.
  bool communicating = false, good = true, isCounted = false;

private:
  static constexpr unsigned mostBadCells = 50; // more say nothing new
  unsigned badCells = 0;
};

class CsvReader : public Reader {
public:
  using Reader::Reader;

  std::optional<TableText> run() {
    llvm::StringRef text(begin, static_cast<size_t>(end - begin));
    reserve(text.count(',') + 64);
    isCounted = true;
    uint64_t row = 0;
    while (at < end) {
      const char *line = at, *lineEnd = endOfLine();
      const auto before = static_cast<uint32_t>(table.ops.size());
      if (!beginRow(row++, line, lineEnd))
        return std::nullopt;
      readLine(lineEnd);
      *current = {before, static_cast<uint32_t>(table.ops.size()), spanOf(line, lineEnd)};
      if (isTooLong(line))
        return std::nullopt;
      at = lineEnd + (lineEnd + 1 < end && lineEnd[0] == '\r' && lineEnd[1] == '\n' ? 2 : 1);
    }
    while (!table.rows.empty() && table.rows.back().begin == table.rows.back().end)
      table.rows.pop_back();
    return finish();
  }

private:
  /// The two kinds of line end are each looked for once, however many lines use the other.
  const char *endOfLine() {
    auto find = [&](const char *&known, char c) {
      if (known < at) {
        known = static_cast<const char *>(std::memchr(at, c, static_cast<size_t>(end - at)));
        known = known ? known : end;
      }
      return known;
    };
    return std::min(find(nextFeed, '\n'), find(nextReturn, '\r'));
  }

  void readLine(const char *lineEnd) {
    while (true) {
      ++cells;
      Op op;
      const char *p = at;
      if (at < lineEnd && isDigit(*at) && scanOp(p, lineEnd, op) && (p == lineEnd || *p == ',')) {
        add(op, at, p);
        at = p;
      } else {
        readOther(lineEnd);
      }
      if (at == lineEnd)
        return;
      ++at; // the comma
    }
  }

  /// A cell that is empty, quoted, surrounded by blanks, several ops or none; `at` goes behind it.
  void readOther(const char *lineEnd) {
    auto upTo = [&](const char *from, char c) {
      const auto *found =
          static_cast<const char *>(std::memchr(from, c, static_cast<size_t>(lineEnd - from)));
      return found ? found : lineEnd;
    };
    while (at < lineEnd && (*at == ' ' || *at == '\t'))
      ++at;
    auto trimmed = [](const char *from, const char *to) {
      return llvm::StringRef(from, static_cast<size_t>(to - from)).trim();
    };
    if (at < lineEnd && *at == '"') {
      const char *closing = upTo(at + 1, '"');
      const char *behind = closing == lineEnd ? lineEnd : closing + 1;
      while (behind < lineEnd && (*behind == ' ' || *behind == '\t'))
        ++behind;
      if (closing != lineEnd && (behind == lineEnd || *behind == ',')) {
        addCell(trimmed(at + 1, closing));
        at = behind;
        return;
      }
    }
    const char *to = upTo(at, ',');
    addCell(trimmed(at, to));
    at = to;
  }

  const char *nextFeed = nullptr, *nextReturn = nullptr;
};

class RowReader : public Reader {
public:
  using Reader::Reader;

  std::optional<TableText> run() {
    llvm::StringRef text(begin, static_cast<size_t>(end - begin));
    reserve(text.count(' '));
    while (skipBlanks()) {
      uint64_t d = 0;
      const char *label = at;
      if (!readLabel(d) || !beginRow(d, label, at))
        return std::nullopt;
      const char *labelEnd = at;
      const bool isRepeated = current->span.isValid();
      const auto before = static_cast<uint32_t>(table.ops.size());
      if (isRepeated) {
        Finding &finding = diagnostics.report(
            Rule::ProgramCount, spanOf(label, labelEnd - 1),
            {{"device", std::to_string(d)}, {"stages", "a row already"}, {"programs", "gets another here"}});
        finding.device = device();
        finding.notes.push_back({"the first one", current->span, device(), ""});
        finding.fix.message = "write one row for each device";
        good = false;
      }
      if (!readCells())
        return std::nullopt;
      if (!isRepeated)
        *current = {before, static_cast<uint32_t>(table.ops.size()), spanOf(label, at)};
      if (isTooLong(label))
        return std::nullopt;
    }
    return finish();
  }

private:
  bool expected(const char *from, const char *to, const std::string &what, const std::string &token) {
    diagnostics.report(Rule::SyntaxError, spanOf(from, to), {{"what", what}, {"token", token}});
    return good = false;
  }

  static bool isComment(const char *p, const char *end) {
    return *p == '/' && p + 1 < end && (p[1] == '/' || p[1] == '*');
  }

  /// Moves `at` to the next character that is neither blank nor in a comment; false at the end.
  bool skipBlanks() {
    while (at < end) {
      if (isBlank(*at)) {
        ++at;
      } else if (isComment(at, end)) {
        llvm::StringRef rest(at, static_cast<size_t>(end - at));
        size_t length = at[1] == '/' ? rest.find('\n') : rest.find("*/", 2);
        at = length == llvm::StringRef::npos ? end : at + length + (at[1] == '/' ? 1 : 2);
      } else {
        return true;
      }
    }
    return false;
  }

  /// The first of `characters` from `p` on that is in no comment, or the end.
  const char *firstOf(const char *p, llvm::StringRef characters) const {
    while (p < end && !characters.contains(*p)) {
      if (isComment(p, end)) {
        llvm::StringRef rest(p, static_cast<size_t>(end - p));
        size_t length = p[1] == '/' ? rest.find('\n') : rest.find("*/", 2);
        p = length == llvm::StringRef::npos ? end : p + length + (p[1] == '*');
      }
      p += p < end;
    }
    return p;
  }

  /// `3:`
  bool readLabel(uint64_t &d) {
    const char *label = at;
    llvm::StringRef digits = llvm::StringRef(at, static_cast<size_t>(end - at)).take_while(llvm::isDigit);
    at += digits.size();
    if (!digits.empty() && skipBlanks() && *at == ':') {
      ++at;
      if (digits.getAsInteger(10, d))
        d = maxDevices; // whatever it is, it is beyond them
      return true;
    }
    at = label;
    llvm::StringRef found(label, static_cast<size_t>(end - label));
    found = found.take_until([](char c) { return c == ':' || c == ';' || c == '\n'; }).rtrim();
    return expected(label, found.end(), "a row such as `0: 0F0 0B0;`",
                    fmt::format("\"{}\"", found.take_front(40).str()));
  }

  /// Up to the `;` of the row, and behind it.
  bool readCells() {
    while (skipBlanks()) {
      if (*at == ';') {
        ++at;
        return true;
      }
      ++cells;
      Op op;
      const char *p = at;
      if (isDigit(*at) && scanOp(p, end, op) &&
          (p == end || *p == ' ' || *p == ';' || isBlank(*p) || isComment(p, end))) {
        add(op, at, p);
        at = p;
      } else if (!readOther()) {
        return false;
      }
    }
    return expected(end - 1, end, "\";\" after the row", "the end of the table");
  }

  /// An empty cell, several ops in brackets, or no op.
  bool readOther() {
    const char *from = at;
    if (*at == '(') {
      // The members may have blanks and comments between them, and `;` separates them.
      const char *p = firstOf(at + 1, "():");
      if (p == end || *p != ')')
        return expected(from, from + 1, "\")\" for this bracket",
                        firstOf(p, ")") == end ? "the end of the table" : fmt::format("\"{}\"", *p));
      at = p;
    }
    while (at < end && !isBlank(*at) && *at != ';' && !isComment(at, end))
      ++at;
    llvm::StringRef cell(from, static_cast<size_t>(at - from));
    if (cell.front() != '(' && cell.contains(':'))
      // The next row's label: a cell never holds a colon.
      return expected(from, at, "\";\" after the row before", fmt::format("\"{}\"", cell.str()));
    if (cell.contains("//") || cell.contains("/*"))
      addCommented(cell);
    else
      addCell(cell);
    return true;
  }

  /// As addCell, with comments between the members: they count as blanks.
  void addCommented(llvm::StringRef cell) {
    std::string clean = cell.str();
    for (size_t i = 0; i + 1 < clean.size(); ++i) {
      if (!isComment(clean.data() + i, clean.data() + clean.size()))
        continue;
      size_t length = clean[i + 1] == '/' ? cell.find('\n', i) : cell.find("*/", i + 2);
      length = length == llvm::StringRef::npos ? cell.size() : length + (clean[i + 1] == '/' ? 0 : 2);
      std::fill(clean.begin() + static_cast<ptrdiff_t>(i), clean.begin() + static_cast<ptrdiff_t>(length),
                ' ');
    }
    Cell parsed = parseCell(clean);
    if (parsed.badAt != llvm::StringRef::npos)
      return badCell(cell, parsed.badAt);
    auto site = static_cast<uint32_t>(sites.size());
    sites.push_back({spanOf(cell.begin(), cell.end()), 0});
    for (const Op &op : parsed.ops) {
      table.ops.push_back(op);
      table.siteOf.push_back(site);
      communicating |= op.isCommunication();
    }
  }
};

} // namespace

std::optional<TableText> readTableRows(llvm::StringRef text, uint32_t offset, TableLimits limits,
                                       std::vector<Site> &sites, Diagnostics &diagnostics) {
  return RowReader(text, offset, limits, sites, diagnostics).run();
}

std::optional<TableText> readCsvRows(llvm::StringRef text, uint32_t offset, TableLimits limits,
                                     std::vector<Site> &sites, Diagnostics &diagnostics) {
  return CsvReader(text, offset, limits, sites, diagnostics).run();
}

} // namespace sluice

# Writes OUT, a C++ file that holds the text of HEADERS. Raw strings are cut at blank lines, since compilers
# limit the length of one.
set(cpp "#include \"Emit/CppRuntime.h\"\n\nnamespace sluice {\n\n")
string(APPEND cpp "static const RuntimeFile files[] = {\n")
foreach(header ${HEADERS})
  file(READ ${header} text)
  string(REPLACE "\n\n" "\n\n)header\" R\"header(" text "${text}")
  string(APPEND cpp "    {\"${header}\", R\"header(${text})header\"},\n")
endforeach()
string(APPEND cpp "};\n\nllvm::ArrayRef<RuntimeFile> runtimeFiles() { return files; }\n\n} // namespace sluice\n")
file(WRITE ${OUT} "${cpp}")

# Writes OUT, a C++ file with the text of FILES: an array of TYPE {name, text}, returned by FUNCTION, both
# declared in INCLUDE. Raw strings are cut at blank lines, since compilers limit the length of one.
set(cpp "#include \"${INCLUDE}\"\n\nnamespace sluice {\n\nstatic const ${TYPE} files[] = {\n")
foreach(file ${FILES})
  file(READ ${file} text)
  string(REPLACE "\n\n" "\n\n)text\" R\"text(" text "${text}")
  string(APPEND cpp "    {\"${file}\", R\"text(${text})text\"},\n")
endforeach()
string(APPEND cpp "};\n\nllvm::ArrayRef<${TYPE}> ${FUNCTION}() { return files; }\n\n} // namespace sluice\n")
file(WRITE ${OUT} "${cpp}")

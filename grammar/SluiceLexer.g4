// Tokens of Sluice. Words that only mean something in one place (`model`, `keep`, `under`) are tokens,
// but the parser's rule `name` accepts them as names as well; only the first ten are reserved.
lexer grammar SluiceLexer;

PARAM   : 'param';
LET     : 'let';
FN      : 'fn';
REQUIRE : 'require';
IMPORT  : 'import';
FOR     : 'for';
IN      : 'in';
IF      : 'if';
ELSE    : 'else';
REPEAT  : 'repeat';

MODEL         : 'model';
CLUSTER       : 'cluster';
TRAINING      : 'training';
SCHEDULE      : 'schedule';
EXPECT        : 'expect';
QUEUE         : 'queue';
ALLOW         : 'allow';
PLACE         : 'place';
ON            : 'on';
BY            : 'by';
DEVICE        : 'device';
TIMETABLE     : 'timetable';
TABLE         : 'table';
FROM          : 'from';
TO            : 'to';
AT            : 'at';
FILL          : 'fill';
OVERLAP       : 'overlap';
GROUP         : 'group';
START         : 'start';
WAIT          : 'wait';
REVERSED      : 'reversed';
KEEP          : 'keep';
USING         : 'using';
VERSION       : 'version';
SCALE         : 'scale';
REPLAY        : 'replay';
OVERWRITE     : 'overwrite';
LOCAL         : 'local';
ANY           : 'any';
EDGE          : 'edge';
TIED          : 'tied';
OVER          : 'over';
WHEN          : 'when';
UNDER         : 'under';
DEADLOCK_FREE : 'deadlock_free';

// The rows of a table have a notation of their own (`0B` is a cell, not bytes), so a table's body is one
// token that the table reader takes apart. A comment in it may hold a brace.
TABLE_BODY : 'table' (SPACE | COMMENT)* '{' (COMMENT | ~'}')* '}';

BANDWIDTH : ([KMGT] 'i'? | ) 'B/s';
UNIT      : 'ns' | 'us' | 'ms' | 's' | ([KMGT] 'i'? | ) 'B';
NUMBER    : DIGIT+ ('.' DIGIT+)? ([eE] [+-]? DIGIT+)?;
STRING    : '"' (~["\\\r\n] | '\\' ["\\])* '"';
IDENTIFIER : [A-Za-z_] [A-Za-z0-9_]*;

ARROW : '->';
RANGE : '..';
AND   : '&&';
OR    : '||';
EQ    : '==';
NE    : '!=';
LE    : '<=';
GE    : '>=';
LT    : '<';
GT    : '>';
NOT   : '!';
ASSIGN : '=';
PLUS  : '+';
MINUS : '-';
STAR  : '*';
SLASH : '/';
PERCENT : '%';
QUESTION : '?';
COLON : ':';
SEMICOLON : ';';
COMMA : ',';
LPAREN : '(';
RPAREN : ')';
LBRACE : '{';
RBRACE : '}';
LBRACKET : '[';
RBRACKET : ']';

DOCUMENTATION : '///' ~[\r\n]* -> channel(HIDDEN);
COMMENTS      : COMMENT -> channel(HIDDEN);
SPACES        : SPACE+ -> skip;

// Whatever fits nothing above; the parser reports it where it stands.
UNKNOWN : .;

fragment DIGIT   : [0-9];
fragment SPACE   : [ \t\r\n];
fragment COMMENT : '//' ~[\r\n]* | '/*' .*? '*/';

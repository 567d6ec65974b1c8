// The shapes of Sluice. Which settings, ops and suffixes exist, and where, is decided after parsing, so
// that a misspelt word gets a finding of its own instead of a syntax error.
parser grammar SluiceParser;

options { tokenVocab = SluiceLexer; }

file : item* EOF;

item
  : param
  | let
  | function
  | requirement
  | importing
  | model
  | cluster
  | training
  | schedule
  | expectation
  | queue
  | allowance
  ;

param       : PARAM name ASSIGN expr (IN range)? SEMICOLON;
let         : LET name ASSIGN expr SEMICOLON;
function    : FN name parameters ASSIGN expr SEMICOLON;
requirement : REQUIRE expr (COMMA STRING)? SEMICOLON;
importing   : IMPORT STRING SEMICOLON;
allowance   : ALLOW ruleName COMMA STRING SEMICOLON;

model    : MODEL name? LBRACE setting* RBRACE;
cluster  : CLUSTER name? LBRACE setting* RBRACE;
training : TRAINING LBRACE setting* RBRACE;
queue    : QUEUE name LBRACE setting* RBRACE;

setting
  : name parameters? ASSIGN settingValue SEMICOLON                    # valueSetting
  | name (parameters? (WHEN expr)? | name parameters? (WHEN expr)?)
    LBRACE setting* RBRACE                                            # blockSetting
  | name FROM STRING SEMICOLON                                        # fromSetting
  | EDGE expr ARROW expr (LBRACE setting* RBRACE | SEMICOLON)         # edgeSetting
  | TIED name ON expr (COMMA expr)* SEMICOLON                         # tiedSetting
  | name ON expr (COMMA expr)* SEMICOLON                              # onSetting
  | name SEMICOLON                                                    # flagSetting
  ;

settingValue
  : range              # rangeValue
  | name OVER name     # overValue
  | name name          # wordsValue
  | expr               # exprValue
  ;

schedule
  : SCHEDULE name scheduleParameters? LBRACE scheduleItem* RBRACE     # writtenSchedule
  | SCHEDULE name ASSIGN expr SEMICOLON                               # derivedSchedule
  ;
scheduleParameters : LPAREN (scheduleParameter (COMMA scheduleParameter)* COMMA?)? RPAREN;
scheduleParameter  : name (ASSIGN expr)? (IN range)?;

scheduleItem
  : let
  | function
  | requirement
  | allowance
  | place
  | device
  | timetable
  | table
  | setting
  ;

place     : PLACE name (IN range)? ON expr (FOR name IN range (BY expr)?)? SEMICOLON;
device    : DEVICE (name (IN range)? | NUMBER | LPAREN expr RPAREN) block;
timetable : TIMETABLE block;
table     : TABLE_BODY | TABLE FROM STRING SEMICOLON;

block : LBRACE statement* RBRACE;

statement
  : let                                                               # letStatement
  | FOR name IN domain (BY expr)? block                               # forStatement
  | IF expr block (ELSE IF expr block)* (ELSE block)?                 # ifStatement
  | REPEAT expr block                                                 # repeatStatement
  | OVERLAP block                                                     # overlapStatement
  | GROUP block                                                       # groupStatement
  | AT expr COLON (op | OVERLAP block)                                # atStatement
  | FILL op                                                           # fillStatement
  | op                                                                # opStatement
  ;
domain : REVERSED LPAREN range RPAREN | range;

op     : (START | WAIT)? name arguments? suffix* SEMICOLON;
suffix
  : KEEP name
  | USING VERSION expr
  | SCALE expr
  | REPLAY
  | OVERWRITE
  | LOCAL
  | TO expr
  | FROM expr
  | IF ANY
  ;

expectation : EXPECT name LBRACE expected* RBRACE;
expected
  : DEADLOCK_FREE UNDER expr (COMMA expr)* SEMICOLON                  # deadlockFree
  | expr (FOR name IN range (BY expr)?)? (WHEN expr)? SEMICOLON       # comparison
  ;

range : expr RANGE expr;

expr
  : primary                                                           # primaryExpr
  | expr LBRACKET expr RBRACKET                                       # indexExpr
  | (MINUS | NOT) expr                                                # unaryExpr
  | expr (STAR | SLASH) expr                                          # binaryExpr
  | expr (PLUS | MINUS) expr                                          # binaryExpr
  | expr (LT | LE | GT | GE) expr                                     # binaryExpr
  | expr (EQ | NE) expr                                               # binaryExpr
  | expr AND expr                                                     # binaryExpr
  | expr OR expr                                                      # binaryExpr
  | <assoc = right> expr QUESTION expr COLON expr                     # conditionalExpr
  ;

primary
  : NUMBER (UNIT | BANDWIDTH | PERCENT)?                              # numberPrimary
  | STRING                                                            # stringPrimary
  | LPAREN expr RPAREN                                                # parenthesisPrimary
  | LBRACKET (expr (COMMA expr)* COMMA?)? RBRACKET                    # listPrimary
  | name LPAREN expr FOR name IN range (BY expr)? RPAREN              # comprehensionPrimary
  | name arguments                                                    # callPrimary
  | name                                                              # namePrimary
  ;

arguments  : LPAREN (argument (COMMA argument)* COMMA?)? RPAREN;
argument   : (name ASSIGN)? expr;
parameters : LPAREN (name (COMMA name)*)? RPAREN;
ruleName   : name (MINUS name)*;

name
  : IDENTIFIER | UNIT
  | MODEL | CLUSTER | TRAINING | SCHEDULE | EXPECT | QUEUE | ALLOW | PLACE | ON | BY | DEVICE | TIMETABLE
  | TABLE | FROM | TO | AT | FILL | OVERLAP | GROUP | START | WAIT | REVERSED | KEEP | USING | VERSION | SCALE
  | REPLAY | OVERWRITE | LOCAL | ANY | EDGE | TIED | OVER | WHEN | UNDER | DEADLOCK_FREE
  ;

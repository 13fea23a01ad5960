-- What is found by words is put in order by this index alone: the words themselves are long, and lie before what orders them.
CREATE INDEX server_words_place ON server_words (id, names_length, identity);

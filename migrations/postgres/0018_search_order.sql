-- What is found in names of tools is found by an index of its own: to leave it out of what else is found by working its words out
-- for each row takes seconds.
CREATE INDEX server_words_tools ON server_words
    USING gin (array_to_tsvector(string_to_array(names, ' ') || string_to_array(tools, ' ')));

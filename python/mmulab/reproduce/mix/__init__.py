"""Paper 4's figures over programs of its size: what MIX TLBs and their rivals are worth, and what memory gives them."""
